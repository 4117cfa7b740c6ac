"""Does Megatron-LM take these commands? Its own parser, validation, model configuration and tokenizer say so.

    MEGATRON_LM=CHECKOUT python3 megatron_starts.py [--gpu hopper|blackwell] FILE...

A FILE holds one command as `moefold show --as megatron-lm` writes it. One line a file: "ok FILE" or "not ok FILE: why".
Nothing of Megatron-LM is changed but what asks the machine: compute capability, and Transformer Engine, which is not
installed where this runs: its version (TE_VERSION), and that its fused kernels exist.
"""
import contextlib
import io
import os
import shlex
import sys
import typing
import warnings

TE_VERSION = "2.14.0"
CAPABILITY = {"hopper": (9, 0), "blackwell": (10, 0)}
# Each command starts with its own environment alone: not with that of the command before it, nor with these of the caller.
OWN = ("CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_GRAPH_REGISTER", "NVTE_CPU_OFFLOAD_V1", "PYTORCH_CUDA_ALLOC_CONF")
INHERITED = {name: value for name, value in os.environ.items() if name not in OWN}


def read_command(path):
    """Environment, number of processes, and the words after the script's name."""
    with open(path) as f:
        words = shlex.split(f.read().replace("\\\n", " "), comments=True)
    environment, i = {}, 0
    while "=" in words[i] and not words[i].startswith("-"):
        name, _, value = words[i].partition("=")
        environment[name] = value
        i += 1
    script = next(j for j in range(i, len(words)) if words[j].endswith(".py"))
    launch = dict(zip(words[i + 1 : script : 2], words[i + 2 : script : 2]))
    processes = int(launch["--nnodes"]) * int(launch["--nproc-per-node"])
    return environment, processes, words[script + 1 :]


def stand_in_for_the_gpu(torch, capability):
    class Properties:
        major, minor = capability
        name, total_memory, multi_processor_count = "stub", 80 << 30, 132

    torch.cuda.get_device_capability = lambda *_, **__: capability
    torch.cuda.get_device_properties = lambda *_, **__: Properties()


def stand_in_for_transformer_engine(utils, version):
    import megatron.core.models.common.embeddings.rope_utils as rope_utils
    import megatron.core.transformer.moe.moe_utils as moe_utils

    utils._te_version = version
    for module in (rope_utils, moe_utils):
        for name in vars(module).copy():
            if name.startswith("fused_") and getattr(module, name) is None:
                setattr(module, name, lambda *_, **__: None)


def start(path):
    import torch
    from megatron.core.tokenizers.utils.build_tokenizer import build_tokenizer
    from megatron.training import global_vars, training
    from megatron.training.arguments import core_transformer_config_from_args, parse_args, validate_args

    environment, processes, words = read_command(path)
    os.environ.clear()
    os.environ.update(INHERITED | environment, WORLD_SIZE=str(processes), RANK="0", LOCAL_RANK="0")
    sys.argv = ["pretrain_gpt.py"] + words
    args = parse_args()
    validate_args(args, {"tokenizer_type": "GPT2BPETokenizer"})  # as pretrain_gpt.py calls it
    core_transformer_config_from_args(args)
    if args.tokenizer_type == "NullTokenizer":  # others want their files
        build_tokenizer(args)
    if not (args.mock_data or args.data_path):
        raise ValueError("no data: neither --mock-data nor --data-path")
    global_vars._GLOBAL_ARGS = args
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    optimizer.param_groups[0].update(max_lr=args.lr, min_lr=args.min_lr, wd_mult=1.0, lr_mult=1.0)
    training.get_optimizer_param_scheduler(optimizer)  # run length, learning rate, warm-up
    training.get_train_valid_test_num_samples()


def main(words):
    gpu = "hopper"
    warnings.simplefilter("ignore")
    if not hasattr(typing, "override"):  # a mark without effect, of Python 3.12
        typing.override = lambda method: method
    if words[:1] == ["--gpu"]:
        gpu, words = words[1], words[2:]
    sys.path.insert(0, os.environ["MEGATRON_LM"])
    import torch

    stand_in_for_the_gpu(torch, CAPABILITY[gpu])
    import megatron.core.utils as utils
    import megatron.training.arguments  # noqa: F401  imports are done before a version is claimed
    from packaging.version import Version

    stand_in_for_transformer_engine(utils, Version(TE_VERSION))
    bad = 0
    for path in words:
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                start(path)
            print("ok", path)
        except (Exception, SystemExit) as e:
            tail = said.getvalue().strip().splitlines()[-3:] if isinstance(e, SystemExit) else []
            print(f"not ok {path}: {type(e).__name__}: {e} {' '.join(tail)}".replace("\n", " "))
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
