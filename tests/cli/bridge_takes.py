"""Does Hydra take these overrides on a configuration with Megatron-Bridge's fields?

    python3 bridge_takes.py KEYS FILE...

KEYS: what `bridge_keys.py fields` prints. A FILE holds what `moefold show --as megatron-bridge` writes. The configuration
is in struct mode, as Bridge has it; precision and overlap are a name and nothing there, the hardest case. Without Hydra only
the keys are compared. One line a file.
"""
import shlex
import sys

try:
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf
except ImportError:
    OmegaConf = None

WHOLE = {"mixed_precision": "bf16_mixed", "comm_overlap": None, "env_vars": {}}


def configuration(keys):
    root = dict(WHOLE)
    for key in keys:
        section, field = key.split(".")
        if section not in WHOLE:
            root.setdefault(section, {})[field] = None
    config = OmegaConf.create(root)
    OmegaConf.set_struct(config, True)
    return config


def unknown(override, keys):
    name, _, value = override.lstrip("+").partition("=")
    if name in WHOLE and value.startswith("{"):
        fields = [f.split(":")[0] for f in value.strip("{}").replace("{", "").replace("}", "").split(",")]
        return [f for f in fields if not f.startswith("_") and f"{name}.{f}" not in keys]
    return [] if name in keys or name in WHOLE or name.startswith("env_vars.") else [name]


def main(path, files):
    with open(path) as f:
        keys = set(f.read().split())
    bad = 0
    for file in files:
        with open(file) as f:
            overrides = shlex.split(f.read(), comments=True)
        wrong = [k for o in overrides for k in unknown(o, keys)]
        try:
            if OmegaConf and not wrong:
                parsed = OverridesParser.create().parse_overrides(overrides=overrides)
                ConfigLoaderImpl._apply_overrides_to_config(overrides=parsed, cfg=configuration(keys))
        except Exception as e:
            wrong.append(str(e).replace("\n", " "))
        print(f"not ok {file}: {'; '.join(wrong)}" if wrong else f"ok {file}")
        bad |= bool(wrong)
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
