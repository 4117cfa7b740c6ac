#!/usr/bin/env python3
"""nsight_of.py TRACE.json.gz OUT.sqlite [KERNELS] - a PyTorch-profiler trace as Nsight Systems would export it.

The tables and columns are those of NVIDIA's description of the SQLite schema; no file of nsys was at hand, so what is
tested with these is our reader against the description, and the same explanation of the same events by both readers.
"""
import gzip, json, os, sqlite3, sys

trace, out = sys.argv[1], sys.argv[2]
most = int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 60
doc = json.load(gzip.open(trace))
events = [e for e in doc["traceEvents"] if e["ph"] == "X"]
start = min(e["ts"] for e in events if e["cat"] != "Trace")
device = sorted((e for e in events if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"])[:most]
until = max(e["ts"] + e["dur"] for e in device)
if most == 1 << 60:
    until = 1e99
PROCESS = 618
global_pid = PROCESS << 24

if os.path.exists(out):
    os.remove(out)
db = sqlite3.connect(out)
db.executescript("""pragma page_size = 1024;
create table StringIds (id integer not null primary key, value text not null);
create table TARGET_INFO_GPU (id integer, name text, busLocation text, totalMemory integer);
create table CUPTI_ACTIVITY_KIND_KERNEL (start integer not null, end integer not null, deviceId integer not null,
  contextId integer not null, streamId integer not null, correlationId integer, globalPid integer,
  demangledName integer not null, shortName integer not null, gridX integer, gridY integer, gridZ integer);
create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer not null, end integer not null, deviceId integer not null,
  contextId integer not null, streamId integer not null, correlationId integer, globalPid integer, bytes integer,
  copyKind integer not null);
create table CUPTI_ACTIVITY_KIND_MEMSET (start integer not null, end integer not null, deviceId integer not null,
  contextId integer not null, streamId integer not null, correlationId integer, globalPid integer, bytes integer);
create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer not null, end integer not null, eventClass integer,
  globalTid integer, correlationId integer, nameId integer not null, returnValue integer);
create table NVTX_EVENTS (start integer not null, end integer, eventType integer not null, text text,
  globalTid integer, textId integer);
""")
ids = {}


def text(s):
    if s not in ids:
        ids[s] = len(ids) + 1
        db.execute("insert into StringIds values (?, ?)", (ids[s], s))
    return ids[s]


def when(e):
    return round((e["ts"] - start) * 1000), round((e["ts"] + e["dur"] - start) * 1000)


for e in device:
    a, (t0, t1) = e["args"], when(e)
    place = (t0, t1, a["device"], a["context"], a["stream"], a["correlation"], global_pid)
    if e["cat"] == "kernel":
        db.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?,?,?,?,?,?,?,?,?,1,1,1)",
                   place + (text(e["name"]), text(e["name"].split("<")[0].split("(")[0])))
    elif e["cat"] == "gpu_memcpy":
        db.execute("insert into CUPTI_ACTIVITY_KIND_MEMCPY values (?,?,?,?,?,?,?,?,2)", place + (a["bytes"],))
    else:
        db.execute("insert into CUPTI_ACTIVITY_KIND_MEMSET values (?,?,?,?,?,?,?,?)", place + (a["bytes"],))
for e in events:
    if e["ts"] > until:
        continue
    t0, t1 = when(e)
    if e["cat"] in ("cuda_runtime", "cuda_driver"):
        db.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?,?,0,?,?,?,0)",
                   (t0, t1, global_pid | e["tid"], e["args"]["correlation"], text(e["name"])))
    elif e["cat"] == "cpu_op":
        name = e["name"] + ", op_id = %d" % e["args"].get("External id", 0) if most < 1 << 60 else e["name"] + ", op_id = 1"
        db.execute("insert into NVTX_EVENTS values (?,?,59,?,?,?)", (t0, t1, None, global_pid | e["tid"], text(name)))
db.execute("insert into TARGET_INFO_GPU values (0, 'NVIDIA H200', '', 0)")
db.commit()
db.execute("vacuum")
db.close()
