"""The keys of Megatron-Bridge, read off its source without running it.

    python3 bridge_keys.py set CHECKOUT             keys that its recipes and performance configurations set
    python3 bridge_keys.py fields CHECKOUT [MCORE]  keys that its configuration classes have; MCORE: a Megatron-LM checkout

One key a line. A recipe sets a key by `cfg.model.x = ...`, by an argument of a section's class, or by env_vars["X"].
"""
import ast
import os
import sys

SECTIONS = {
    "TrainingConfig": "train", "ValidationConfig": "validation", "OptimizerConfig": "optimizer",
    "SchedulerConfig": "scheduler", "DistributedDataParallelConfig": "ddp", "GPTDatasetConfig": "dataset",
    "MockGPTDatasetConfig": "dataset", "LoggerConfig": "logger", "TokenizerConfig": "tokenizer",
    "CheckpointConfig": "checkpoint", "DistributedInitConfig": "dist", "RNGConfig": "rng",
    "RerunStateMachineConfig": "rerun_state_machine", "CommOverlapConfig": "comm_overlap",
    "MixedPrecisionConfig": "mixed_precision", "ProfilingConfig": "profiling", "FaultToleranceConfig": "ft",
    "StragglerDetectionConfig": "straggler", "NVRxStragglerDetectionConfig": "nvrx_straggler",
    "TensorInspectConfig": "tensor_inspect", "InProcessRestartConfig": "inprocess_restart",
    "GPTModelProvider": "model", "MLAModelProvider": "model", "TransformerConfig": "model", "MLATransformerConfig": "model",
}
NAMES = set(SECTIONS.values()) | {"env_vars", "peft"}
ROOTS = {"cfg", "recipe", "config", "base_cfg", "self"}


def trees(*folders):
    for folder in folders:
        for where, _, files in os.walk(folder):
            for name in sorted(files):
                if name.endswith(".py"):
                    with open(os.path.join(where, name)) as f:
                        yield ast.parse(f.read())


def dotted(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id] + parts[::-1] if isinstance(node, ast.Name) else []


def targets(node):
    if isinstance(node, ast.Assign):
        for t in node.targets:
            yield from t.elts if isinstance(t, ast.Tuple) else [t]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        yield node.target


def set_keys(bridge):
    keys = set()
    for tree in trees(f"{bridge}/src/megatron/bridge/recipes", f"{bridge}/scripts/performance"):
        for node in ast.walk(tree):
            for target in targets(node):
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    if dotted(target.value)[-1:] == ["env_vars"]:
                        keys.add(f"env_vars.{target.slice.value}")
                parts = dotted(target)
                if len(parts) > 2 and parts[0] in ROOTS and parts[1] in NAMES:
                    keys.add(".".join(parts[1:]))
            if isinstance(node, ast.Call) and dotted(node.func):
                section = SECTIONS.get(dotted(node.func)[-1])
                keys.update(f"{section}.{k.arg}" for k in node.keywords if section and k.arg)
    return keys


def class_fields(folders):
    """Annotated fields of every class, with those of its bases, by name; several classes may share a name."""
    fields, bases = {}, {}
    for tree in trees(*folders):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                own = {s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)}
                fields.setdefault(node.name, set()).update(own)
                above = {dotted(b)[-1] for b in node.bases if dotted(b)}
                bases.setdefault(node.name, set()).update(above - {node.name})
    def whole(name, seen):
        if name in seen or name not in fields:
            return set()
        return fields[name].union(*(whole(b, seen | {name}) for b in bases[name]))
    return {name: whole(name, frozenset()) for name in fields}


def field_keys(bridge, mcore):
    fields = class_fields([f"{bridge}/src/megatron/bridge"] + ([f"{mcore}/megatron"] if mcore else []))
    return {f"{s}.{f}" for c, s in SECTIONS.items() for f in fields.get(c, ()) if not f.startswith("_")}


if __name__ == "__main__":
    found = set_keys(sys.argv[2]) if sys.argv[1] == "set" else field_keys(sys.argv[2], (sys.argv + [None])[3])
    print("\n".join(sorted(found)))
