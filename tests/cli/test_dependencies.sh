#!/usr/bin/env bash
# What an edit compiles anew: kernels do not depend on tables that they do not read. From the repository's root.
set -u
failed=0

# What the kernels' header includes, as the compiler lists it.
listed=$("${CC:-gcc}" -x c -std=c11 -Isrc -Ibuild/generated -MM src/backend/kernels/kernels.h)
if [[ $listed != *op/op.h* ]]; then
    echo "not ok the_compiler_lists_includes: $listed"
    exit 1
fi
for table in config/knobs.def op/ops.def op/ops_moe.def; do
    name=kernels_do_not_depend_on_$(basename "$table" .def)
    if [[ $listed == *$table* ]]; then
        echo "not ok $name: an edit of src/$table compiles every kernel anew, those of GPUs for minutes"
        failed=1
    else
        echo "ok $name"
    fi
done
exit $failed
