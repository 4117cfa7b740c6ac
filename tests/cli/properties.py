"""Properties of every answer, over random jobs; run by test_properties.sh. A job that breaks one is printed as a command.

PROPERTIES_SEED starts other jobs than those of `make test`, PROPERTIES_JOBS sets their number."""
import itertools, json, os, random, re, shlex, sys, tempfile

import repairs
from repairs import asked, run

SEED = int(os.environ.get("PROPERTIES_SEED", "1"))
JOBS = int(os.environ.get("PROPERTIES_JOBS", "300" if os.environ.get("TEST_ALL") else "30"))
GPUS = ["A100", "H100", "H200", "H800", "B200", "B300", "GB200", "GB300"]
PRESETS = json.loads(run("show", "--presets", "--json").stdout)
SEQUENCES = ["2K", "4K", "8K", "16K", "32K", "64K", "128K"]
PRECISIONS = ["bf16", "fp8_sc", "fp8_cs", "mxfp8", "nvfp4", "fp8"]


def jobs(name, part):
    """JOBS / part random number generators, each its own job."""
    return [random.Random(f"{SEED} {name} {i}") for i in range(max(1, JOBS // part))]


def maybe(r, chance, *words):
    return [r.choice(words)] if r.random() < chance else []


def cluster(r):
    return f"{r.choice([8, 16, 24, 32, 64, 72, 128, 256, 512])}x{r.choice(GPUS)}"


def extras(r, wild):
    words = maybe(r, 0.4, "model.recompute_granularity=selective", "optimizer.optimizer_cpu_offload=true",
                  "model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1")
    words += maybe(r, 0.3, *(f"mixed_precision={p}" for p in PRECISIONS[:None if wild else 2]))
    if wild:
        words += maybe(r, 0.3, "model.moe_token_dispatcher_type=deepep", "model.moe_token_dispatcher_type=flex",
                       "model.cp_comm_type=ulysses", "model.cp_comm_type=a2a", "model.cp_comm_type=a2a+p2p")
        words += maybe(r, 0.3, "comm_overlap.overlap_moe_expert_parallel_comm=true", "model.cuda_graph_impl=transformer_engine",
                       "model.cuda_graph_impl=full_iteration", "model.sequence_parallel=true", "comm_overlap.tp_comm_overlap=true",
                       "model.fine_grained_activation_offloading=true", "model.moe_expert_capacity_factor=0.5")
    return [x for w in words for x in w.split()]


def legal(r):
    """A job whose sizes divide one another, and mostly the model."""
    tp, cp, pp, dp, mbs = (r.choice(x) for x in ((1, 2, 4), (1, 1, 2, 4), (1, 1, 2, 4), (2, 4, 8, 16), (1, 2)))
    n = tp * cp * pp * dp
    ep = r.choice([e for e in (1, 4, 8, 16, 32) if n % (e * pp) == 0])
    return [r.choice(PRESETS), "--gpus", f"{n}x{r.choice(GPUS)}", "--seq", r.choice(SEQUENCES), f"tp={tp}", f"cp={cp}", f"pp={pp}",
            f"ep={ep}", f"mbs={mbs}", f"gbs={dp * mbs * pp * r.choice((1, 4))}", *extras(r, False)]


def recipe(r, wild):
    """A job with its sizes; `wild`: they need not be legal, and seldom are."""
    if not wild:
        return legal(r)
    words = [r.choice(PRESETS), "--gpus", cluster(r), "--seq", r.choice(SEQUENCES)]
    for key in ("tp", "cp", "pp", "ep"):
        words += maybe(r, 0.6, *(f"{key}={n}" for n in (1, 1, 2, 3, 4, 5, 8, 16, 64)))
    words += maybe(r, 0.3, "vpp=2", "vpp=4") + maybe(r, 0.4, "gbs=64", "gbs=256", "gbs=1024", "gbs=100")
    return words + maybe(r, 0.3, "mbs=1", "mbs=2") + extras(r, True)


def wanted(r):
    """A job for plan, small enough to be searched quickly."""
    return [r.choice(PRESETS), "--gpus", f"{r.choice([8, 16, 24, 32, 64])}x{r.choice(GPUS)}", "--seq", r.choice(["4K", "8K", "16K", "32K"]),
            "--gbs", r.choice(["64", "128", "256"])]


def differing(a, b, keys):
    return [f"{k}: {a.get(k)} and {b.get(k)}" for k in keys if a.get(k) != b.get(k)]


def near(a, b):
    return abs(a - b) <= 1e-6 * abs(b)


def errors(answer):
    return sorted(v["rule"] for v in answer["violations"] if v["severity"] == "error")


def page(words):
    with tempfile.TemporaryDirectory() as folder:
        done = run("report", *words, "-o", folder + "/page.html", "--brief")
        try:
            text = open(folder + "/page.html").read()
        except OSError:
            return None, done
        return json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.S)[1]), done


# ---- the properties: each yields (command, what is wrong) for every job that breaks it


def commands_agree():
    """check, price, show and report: legality, bytes, seconds, bands, exit codes."""
    for r in jobs("agree", 4):
        words = recipe(r, r.random() < 0.25)
        check, price, show = (asked(c, words) for c in ("check", "price", "show"))
        if "unreadable" in check:
            continue
        memory = ["fits", "peak_bytes", "usable_bytes", "fullest_rank"]
        wrong = differing(check, show, ["ok", *memory])
        if errors(check) != errors(price) or errors(check) != errors(show):
            wrong.append(f"rules: {errors(check)}, {errors(price)}, {errors(show)}")
        if (check["fits"] is None) != bool(price.get("why_not")):
            wrong.append("a program can be built in one of check and price only")
        code = run("check", *words).returncode
        if code != int(not (check["ok"] and check["fits"] is not False)):
            wrong.append(f"exit code {code} of check")
        if not price.get("why_not"):
            wrong += differing(check, price, memory)
            if sum(p["bytes"] for p in price["memory"]["peak_parts"]) != price["peak_bytes"]:
                wrong.append("parts of the peak do not add up to it")
            for change in r.sample(price["changes"] + price["wall_repairs"], 1) if price["changes"] else []:
                then = asked("price", [*words, *change["change"].split()])
                gain = then.get("step_s") and then["tokens_per_s_per_gpu"] / price["tokens_per_s_per_gpu"] - 1
                if gain is None or abs(gain - change["gain"]) > 1e-6 or then["peak_bytes"] != change["peak_bytes"]:
                    wrong.append(f"{change['change']}: {gain} more tokens/s, not {change['gain']}")
            data, done = page(words)
            if data is None:
                wrong.append("report: " + done.stderr.strip())
            else:
                own = data["own"]
                wrong += differing(price, own["memory"], ["peak_bytes", "usable_bytes"])
                wrong += differing(price, own["price"], ["fits", "wall"])
                if not near(own["price"]["step_s"], price["step_s"]):
                    wrong.append("report has another step than price")
                if sum(p["bytes"] for p in own["memory"]["regions"]) != price["peak_bytes"]:
                    wrong.append("regions of report do not add up to the peak")
                if errors(own) != errors(check):
                    wrong.append(f"report breaks {errors(own)}, check {errors(check)}")
        priced = [(repair, p) for v in check["violations"] for repair, p in zip([v["repair"], *v["alternatives"]], v["repair_prices"])
                  if repair and p]
        for repair, said in r.sample(priced, min(len(priced), 2)):
            then = asked("price", [*words, *repair])
            wrong += [f"{shlex.join(repair)}: {w}" for w in differing(said, then, ["peak_bytes", "fits"])]
            if said["step_s"] and not near(said["step_s"], then.get("step_s", 0)):
                wrong.append(f"{shlex.join(repair)}: a step of {said['step_s']}, and of price {then.get('step_s')}")
        yield ["check", *words], wrong


def diffs_are_of_prices():
    """diff of a job and the same job changed, both as recipes: its ends are what price says, its rows add up to what differs."""
    for r in jobs("diff", 4):
        words, changed = legal(r), extras(r, True) + maybe(r, 0.5, "mbs=2", "pp=2", "tp=2", "ep=2", "model.moe_permute_fusion=true")
        sides = [run("show", *w, "--as", "recipe") for w in (words, [*words, *changed])]
        if any(s.returncode for s in sides):
            continue
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/{name}.yaml" for name in "ab"]
            for path, side in zip(files, sides):
                open(path, "w").write(side.stdout)
            diff, prices = asked("diff", files), [asked("price", [f]) for f in files]
            spelled = [asked("price", w) for w in (words, [*words, *changed])]
        wrong = [diff["unreadable"]] if "unreadable" in diff else []
        for i, side in enumerate("ab" if not wrong else ""):
            wrong += [f"{side}: {w}" for w in differing(diff[side], prices[i], ["peak_bytes", "usable_bytes", "fits", "wall", "step_s"])]
            wrong += [f"{side} as a recipe: {w}" for w in differing(prices[i], spelled[i], ["peak_bytes", "fits", "step_s", "wall"])]
            if errors(diff[side]) != errors(prices[i]):
                wrong.append(f"{side} breaks {errors(diff[side])}, of price {errors(prices[i])}")
        if "parts" in diff:
            ends = [diff["a"], diff["b"]]
            for key, rows, same in (("step_s", "parts", near), ("peak_bytes", "regions", lambda x, y: x == y)):
                for side in "ab":
                    if not same(sum(x[side] for x in diff[rows].values()), diff[side][key]):
                        wrong.append(f"{rows} of {side} do not add up to {key}")
                grown = sum(c["seconds" if key == "step_s" else "bytes"] for c in diff["changes"])
                if diff["changes"] and abs(grown - (ends[1][key] - ends[0][key])) > 1e-6 * ends[0][key]:
                    wrong.append(f"changes of {key} add up to {grown}, and not to {ends[1][key] - ends[0][key]}")
        yield ["diff", *words, "and with", *changed], wrong


def fix_makes_valid_and_fit():
    """check --fix: what it prints is appended; nothing is printed where nothing is wrong."""
    for r in jobs("fix", 6):
        words = recipe(r, r.random() < 0.7)
        check = asked("check", words)
        if "unreadable" in check:
            continue
        done = run("check", *words, "--fix")
        fix = shlex.split(done.stdout)
        wrong = []
        if fix != check["fix"] and check["fixable"]:
            wrong.append(f"--fix prints {fix}, JSON has {check['fix']}")
        if check["ok"] and check["fits"] and fix:
            wrong.append("something is printed where nothing is wrong")
        then = asked("show", [*words, *fix])
        if "unreadable" in then:
            wrong.append("cannot be appended: " + then["unreadable"])
        elif fix and not then["ok"]:
            wrong.append(f"not valid then: {errors(then)}")
        elif check["fixable"] and fix:
            if then["fits"] is False:
                wrong.append("it does not fit then")
            priced = asked("price", [*words, *fix])
            if priced.get("why_not") or priced.get("fits") != then["fits"]:
                wrong.append(f"price of it: {priced.get('why_not') or priced.get('fits')}")
            again = shlex.split(run("check", *words, *fix, "--fix").stdout)
            if again:
                wrong.append(f"it is fixed again by {again}")
        yield ["check", *words, "--fix"], wrong


def plans_are_what_others_say():
    """The winner of a plan: check, price and report have its bytes, seconds and bands."""
    for r in jobs("plan", 7):
        words = wanted(r)
        plan = asked("plan", words)
        if "unreadable" in plan or not plan["best"]:
            continue
        best, wrong = plan["best"][0], []
        with tempfile.TemporaryDirectory() as folder:
            winner = folder + "/winner.yaml"
            open(winner, "w").write(plan["recipe"])
            open(folder + "/plan.json", "w").write(json.dumps(plan))
            check, price = asked("check", [winner]), asked("price", [winner])
            data, done = page([folder + "/plan.json"])
        if not (check.get("ok") and check.get("fits")):
            wrong.append(f"check: {check.get('unreadable') or (errors(check), check['fits'])}")
        wrong += differing(best, price, ["peak_bytes", "wall"])
        if price.get("step_s") and not near(best["step_s"], price["step_s"]):
            wrong.append(f"step {best['step_s']}, and of price {price['step_s']}")
        mine, theirs = best.get("band"), price.get("band")
        if bool(mine) != bool(theirs) or mine and not all(near(mine[k], theirs[k]) for k in mine):
            wrong.append(f"band {mine}, and of price {theirs}")
        if data is None:
            wrong.append("report: " + done.stderr.strip())
        elif not all(near(x["step_s"], best["step_s"]) for x in (data["plan"]["best"][0], data["own"]["price"])):
            wrong.append("report has another step than plan")
        yield ["plan", *words], wrong


def repairs_repair():
    """Every repair that check prints is appended to the command."""
    n = 0
    for r in jobs("repair", 2):
        words = recipe(r, r.random() < 0.7)
        many, wrong = repairs.faults(words)
        n += many
        yield ["check", *words], wrong
    yield ["check"], [] if n >= JOBS else [f"only {n} repairs were seen"]


IDLE = ["rng.seed=4321", "optimizer.lr=0.0002", "optimizer.adam_eps=1e-07", "optimizer.weight_decay=0.2", "logger.log_interval=7",
        "validation.eval_iters=11", "dataset.num_workers=5", "dataset.random_seed=99", "checkpoint.save=elsewhere",
        "checkpoint.most_recent_k=3", "train.exit_interval=50", "train.exit_duration_in_mins=30", "scheduler.lr_decay_style=linear",
        "dist.distributed_timeout_minutes=30", "logger.tensorboard_dir=there", "logger.timing_log_level=1", "model.init_method_std=0.01",
        "moefold.on_nan=stop", "model.rotary_base=70000", "model.layernorm_epsilon=1e-06"]


def idle_knobs_change_nothing():
    """Knobs that neither memory nor time depend on: check and price are the same with them, and plan."""
    for r in jobs("idle", 5):
        words, idle = recipe(r, False), r.sample(IDLE, 4)
        here, there = asked("show", words), asked("show", [*words, *idle])
        if "unreadable" in here:
            continue
        wrong = differing(here, there, ["ok", "fits", "peak_bytes", "fullest_rank"]) if "ok" in there else [str(there)]
        if r.random() < 0.3 and "ok" in there and here["fits"] is not None:
            here, there = asked("price", words), asked("price", [*words, *idle])
            wrong += differing(here, there, ["step_s", "peak_bytes", "wall", "band"])
        yield ["check", *words, *idle], wrong
    for r in jobs("idle plan", 30):
        words, idle = wanted(r), r.sample(IDLE, 4)
        here, there = asked("plan", words), asked("plan", [*words, *idle])
        if "unreadable" not in here:
            rows = lambda p: [(b["step_s"], b["peak_bytes"]) for b in p.get("best", [])]
            yield ["plan", *words, *idle], [] if rows(here) == rows(there) else ["other rows than without these knobs"]


def twice_the_gpus_never_lose():
    """Twice the GPUs with twice the batch: tokens a second do not fall."""
    for r in jobs("twice", 15):
        model, _, gpus, *rest = wanted(r)
        n, name = gpus.split("x")
        rate = []
        for k in (1, 2):
            gbs = k * int(rest[3])
            plan = asked("plan", [model, "--gpus", f"{k * int(n)}x{name}", *rest[:3], str(gbs)])
            rate.append(max((gbs / b["step_s"] for b in plan.get("best", [])), default=0))
        said = ["plan", model, "--gpus", f"{2 * int(n)}x{name}", *rest[:3], str(2 * int(rest[3]))]
        yield said, [] if rate[1] >= 0.999 * rate[0] else [f"{rate[1]:.4g} samples/s, and {rate[0]:.4g} on half of it"]


def blocks(text):
    """{label: its lines} of a screen."""
    out, label = {}, None
    for line in text.splitlines():
        found = re.match(r"([A-Z][A-Z ]{,7}) +(?=\S)", line)
        label = found[1].strip() if found else label if line.startswith(" ") else None
        if label:
            out.setdefault(label, []).append(line[9:])
    return out


def screen_faults(command, words):
    """How many sums a screen has, and what is wrong with its widths and with those sums."""
    wrong, sums = [], 0
    for columns in (80, 120):
        done = run(command, *words, env={**os.environ, "COLUMNS": str(columns)})
        wrong += [f"wider than {columns}: {x}" for x in done.stdout.splitlines() if len(x) > columns]
    own = blocks(run(command, *words, env={**os.environ, "COLUMNS": "1000"}).stdout)
    for label, unit in (("MEMORY", r"[KMG]iB|bytes"), ("TIME", "%")):
        if label not in own or len(own[label]) < 2:
            continue
        head, parts = own[label][:2]
        sums += 1
        said = re.match(r"\|.*?\|  ([0-9.]+) ", head)
        whole = 100 if label == "TIME" else float(said[1])
        parts = re.match(rf"(?:rank \d+(?:, the fullest)?: )?(.*?) (?:{unit})(?:  |$)", parts)
        total = sum(float(p.split()[-1]) for p in parts[1].split("  "))
        if abs(total - whole) > 1e-6:
            wrong.append(f"{label} adds up to {total}, not to {whole}: {own[label]}")
    return sums, wrong


def screens_add_up():
    """price, check and plan: no line is wider than the window, memory adds up to the peak, time to 100 %."""
    seen = 0
    for r in itertools.chain(*(jobs(f"screens {i}", 1) for i in range(3))):
        words = legal(r)
        for command in ("price", "check"):
            sums, wrong = screen_faults(command, words)
            seen += sums
            yield [command, *words], wrong
    for r in jobs("screens of plans", 10):
        words = wanted(r)
        sums, wrong = screen_faults("plan", words)
        yield ["plan", *words], wrong
    yield ["price"], [] if seen >= 3 * JOBS else [f"only {seen} sums were seen"]


PROPERTIES = [screens_add_up, commands_agree, diffs_are_of_prices, fix_makes_valid_and_fit, plans_are_what_others_say, repairs_repair, idle_knobs_change_nothing,
              twice_the_gpus_never_lose]

if __name__ == "__main__":
    for p in [q for q in PROPERTIES if len(sys.argv) < 2 or q.__name__ in sys.argv[1:]]:
        broken = [(shlex.join(["moefold", *words]), wrong) for words, wrong in p() if wrong]
        why = f": {len(broken)} jobs (PROPERTIES_SEED={SEED})" if broken else ""
        print(("not ok " if broken else "ok ") + p.__name__ + why)
        for command, wrong in broken:
            print("    " + command)
            for line in itertools.islice(wrong, 6):
                print("        " + line)
        sys.stdout.flush()
