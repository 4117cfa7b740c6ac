# Makefile - builds ./moefold, tests it, and shows it at work.
#
# Sources are found by pattern: a new file under src/ or tests/ needs no change here. What is built
# lies under build/; the other ways of building (sanitizers, fuzzing, the second compiler) are this
# same Makefile, called again with another BUILD.

ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS       ?= -O2 -g
WERROR       ?= -Werror# `make WERROR=` lets a newer compiler's new warnings pass
PREFIX       ?= /usr/local
FUZZ_SECONDS ?= 60

BUILD    := build
SANITIZE :=
OTHER_CC := $(if $(findstring clang,$(notdir $(CC))),gcc,clang)

WARNINGS  := -Wall -Wextra -Wshadow -Wconversion -Wvla -Wpointer-arith $(WERROR)
OUR_FLAGS := -std=c11 -D_XOPEN_SOURCE=700 -Isrc -Itests -I$(BUILD)/generated \
             $(WARNINGS) -fopenmp $(SANITIZE)
COMPILE    = $(CC) $(OUR_FLAGS) $(CFLAGS) $(CPPFLAGS)

# The libraries for YAML, JSON and gzip go into the program, so that it runs where they are not installed.
LIBRARIES := libfyaml jansson sqlite3 zlib
LINK_LIBS := $(shell tools/static-libs $(LIBRARIES)) -pthread -ldl -lm
OUR_FLAGS += $(shell pkg-config --cflags $(LIBRARIES) 2>/dev/null)

MAIN     := src/cli/main.c
MPI_PART := $(wildcard src/backend/mpi/*.c)
MPI_ALSO := src/base/dtype.c src/backend/comm/adder.c# of the program: the object has its own copy
SOURCES  := $(filter-out $(MAIN) $(MPI_PART) src/backend/cuda/%,\
              $(wildcard src/*/*.c src/*/*/*.c src/*/*/*/*.c))
OBJECTS  := $(SOURCES:%.c=$(BUILD)/obj/%.o)
LIBRARY  := $(BUILD)/libmoefold.a
PROGRAM  := $(BUILD)/moefold
VERSION  := $(shell sed -n 's/^\#define MOEFOLD_VERSION "\(.*\)"/\1/p' include/moefold.h)
SONAME   := libmoefold.so.$(firstword $(subst ., ,$(VERSION)))
SHARED   := $(BUILD)/library/libmoefold.so.$(VERSION)# for other programs, as is the next
STATIC   := $(BUILD)/library/libmoefold.a
OPS      := $(addprefix $(BUILD)/generated/op/op_,names.h facts.h cuda.h forms.h operands.h launch.h fusions.h timed.h)
JOB      := $(BUILD)/generated/job/fields.h $(BUILD)/generated/config/job_words.h
RULE_IDS := $(BUILD)/generated/rules/rule_ids.h
MADE     := $(OPS) $(JOB) $(RULE_IDS)
PAGE     := $(patsubst src/report/%,$(BUILD)/generated/report/%.h,$(wildcard src/report/page.html \
            src/report/page.css src/report/page*.js))

# Emulated devices and words that plant faults, and the program with them: for tests.
EMULATED     := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/emulated/*.c))
TEST_PROGRAM := $(BUILD)/moefold-test

TESTS    := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/*/test_*.c)))
SCRIPTS  := $(sort $(wildcard tests/*/test_*.sh))
FUZZERS  := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
BENCHES  := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard bench/*.c)))

# Probes of the GPU; the library that stands in for a driver lies where nothing finds it by itself.
NVCC      := $(shell command -v nvcc)
NVCCFLAGS ?= -O3
GPU_ONLY  := -gencode arch=compute_90a,code=sm_90a
PROBES    := $(patsubst %.cu,$(BUILD)/%,$(sort $(wildcard bench/cuda/*.cu)))
NO_DRIVER := $(BUILD)/bench/cuda/no-driver/libcuda.so.1

# The GPU's kernels, and their test; nvcc compiles the .cu files, the C compiler the rest.
CUDA_PART    := $(wildcard src/backend/cuda/kernels/*.cu src/backend/cuda/device/*.cu)
# What is the program's, too: the object has copies of its own.
CUDA_ALSO    := src/base/status.c src/base/foreign.c src/base/dtype.c src/backend/kernels/pick.c \
                src/op/op.c src/op/fused.c src/op/quant.c src/backend/device/log.c \
                src/backend/device/issue.c src/backend/device/rendezvous.c
CUDA_C       := $(wildcard src/backend/cuda/kernels/*.c src/backend/cuda/device/*.c) $(CUDA_ALSO)
CUDA_OBJECTS := $(CUDA_PART:%.cu=$(BUILD)/obj/%.cu.o) $(CUDA_C:%.c=$(BUILD)/obj/%.pic.o)
CUDA_TEST    := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/cuda/*.c))
CUDA_HOME    := $(dir $(realpath $(NVCC)))..
CUDA_RUNTIME := -L$(CUDA_HOME)/lib64 -L$(CUDA_HOME)/lib -lcublasLt -lcudart_static -lstdc++ \
                -pthread -ldl -lrt

# Shared objects that the program opens when it needs them: for Open MPI, and for GPUs, where what
# they need is found.
CUDA_FOUND   := $(and $(NVCC),$(wildcard $(CUDA_HOME)/include/cublasLt.h),$(firstword \
                  $(wildcard $(CUDA_HOME)/include/cudnn.h /usr/include/cudnn.h \
                  /usr/include/*/cudnn.h)))
MPI_OBJECT   := $(if $(shell command -v mpicc),$(BUILD)/moefold-mpi.so)
BACKENDS     := $(MPI_OBJECT) $(if $(CUDA_FOUND),$(BUILD)/moefold-cuda.so)

# Commands are shown with V=1; else only what is made.
Q    := $(if $(V),,@)
say   = @echo "  $(1) $(2)"

# Jobs for the makes that we start ourselves; whoever says -j decides instead.
SUB = --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

.DELETE_ON_ERROR:
.PHONY: all planner run test test-layouts test-all lint asan tsan fuzz bench install install-library uninstall help deps clean accuracy directions
.PHONY: bench-cuda screens guard-record oracle torture cuda cuda-backend cuda-blackwell blackwell-backend
.PHONY: FORCE check-deps cpu-program test-programs fuzz-programs bench-programs fuzz-objects cuda-programs

# Only the library and its tests see its header, and who says the version.
$(addprefix $(BUILD)/obj/src/,library/%.o cli/help.o) $(BUILD)/tests/library/%: \
    private CPPFLAGS += -Iinclude

# ---- what people call ----------------------------------------------------------------------------

all: moefold ## Build ./moefold (CC=clang: with the other compiler; V=1: show commands)

planner: ## Install what is missing, build the planner alone: no training, no MPI, no CUDA
	@CC='$(CC)' tools/deps build
	@$(MAKE) $(SUB) $(BUILD)/moefold-planner
	@if [ -e $(PROGRAM) ]; then echo "./moefold is the whole program; the planner alone is $(BUILD)/moefold-planner"; \
	else ln -sf $(BUILD)/moefold-planner moefold; fi

# Without a GPU what it shows runs on CPUs: two minutes of nvcc are left to `make`.
run: ## Install what is missing, build, and show the main job
	@CC='$(CC)' tools/deps build
	@$(MAKE) $(SUB) $$(nvidia-smi -L >/dev/null 2>&1 && echo all || echo cpu-program)
	@MOEFOLD=./moefold tools/demo

test: ## Install what is missing, build, run all tests and a short fuzz run
	@CC='$(CC)' tools/deps build test
	@$(MAKE) $(SUB) -k all test-programs build/bench/accuracy $$(tools/fuzz probe && echo fuzz-programs) || \
	    { $(MAKE) $(SUB) all || exit 1; broken=--broken; }; \
	OMP_WAIT_POLICY=passive MOEFOLD=./moefold tools/test $$broken $(TESTS) $(SCRIPTS) -- $(FUZZERS)

test-layouts: ## Train every layout of the list and a random sample; all parity runs (a few minutes)
	@CC='$(CC)' tools/deps build test
	@$(MAKE) $(SUB) all
	@$(MAKE) $(SUB) build/tests/train/test_layouts build/tests/train/test_deferred build/tests/train/test_options
	@MOEFOLD_LAYOUTS=all TEST_SECONDS=1800 OMP_WAIT_POLICY=passive MOEFOLD=./moefold \
	    tools/test build/tests/train/test_layouts build/tests/train/test_deferred build/tests/train/test_options \
	    tests/cli/test_parity_ranks.sh

# Tests that have a short and a long form ask whether TEST_ALL is set.
test-all: ## All of test in its long form, test-layouts, and every fuzzer for FUZZ_SECONDS (60); hours
	@TEST_ALL=1 FIX_RECIPES=20000 TEST_SECONDS=7200 $(MAKE) test
	@$(MAKE) test-layouts
	@$(MAKE) fuzz

lint: ## Check format, line lengths, include directions, docs/KNOBS.md, and the second compiler
	@CC='$(CC)' tools/deps build lint
	@$(MAKE) $(SUB) all
	@tools/lint || bad=1; \
	$(MAKE) $(SUB) -k BUILD=build/$(OTHER_CC) CC=$(OTHER_CC) \
	    build/$(OTHER_CC)/moefold test-programs fuzz-objects || bad=1; \
	if [ -n "$$bad" ]; then exit 1; else echo "lint: all is well"; fi

# Scripts that preload a library of their own to plant faults put it before the sanitizer's.
asan: ## Run the tests under the address and undefined-behaviour sanitizers
	@CC='$(CC)' tools/deps build test
	@$(MAKE) $(SUB) BUILD=build/asan build/asan/moefold test-programs \
	    SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=undefined'
	@TEST_SECONDS=$${TEST_SECONDS:-1800} OMP_WAIT_POLICY=passive MOEFOLD=build/asan/moefold \
	    ASAN_OPTIONS=verify_asan_link_order=0 \
	    tools/test $(TESTS:build/%=build/asan/%) $(SCRIPTS)

# gcc's OpenMP is not compiled with the sanitizer, which would take its barriers for races. So a team
# has one thread here; what is looked at are ranks as threads, the watchdog and saves beside steps.
# Products are our own C instead of OpenBLAS's, for the same reason. MPI's parts are left out by
# tests/tsan.supp.
TSAN_TESTS := $(filter $(BUILD)/tests/comm/% $(BUILD)/tests/device/% $(BUILD)/tests/library/%,$(TESTS)) \
    $(addprefix $(BUILD)/tests/train/,test_layouts test_checkpoint test_data_shrink)

tsan: ## Run tests/comm and tests/device, ranks as threads, a quarter of the layouts and saves under the thread sanitizer
	@CC='$(CC)' tools/deps build test
	@$(MAKE) $(SUB) BUILD=build/tsan $(TSAN_TESTS:build/%=build/tsan/%) build/tsan/moefold build/tsan/moefold-test \
	    build/tsan/moefold-mpi.so \
	    SANITIZE='-fsanitize=thread -Wno-maybe-uninitialized'
	@TEST_SECONDS=$${TEST_SECONDS:-3600} MOEFOLD_LAYOUTS=$${MOEFOLD_LAYOUTS:-4} \
	    TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.supp OMP_THREAD_LIMIT=1 \
	    MOEFOLD_OPENBLAS=/none MOEFOLD=build/tsan/moefold \
	    tools/test $(TSAN_TESTS:build/%=build/tsan/%) tests/cli/test_threads.sh

fuzz: ## Fuzz every reader for FUZZ_SECONDS (60) each, from where the last run ended
	@CC='$(CC)' tools/deps build test
	@tools/fuzz probe
	@$(MAKE) $(SUB) fuzz-programs
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/test -- $(FUZZERS)

torture: ## Fail and kill saves, flip bits, send signals, try random commands (TORTURE_SECONDS=300)
	@CC='$(CC)' tools/deps build test
	@$(MAKE) $(SUB) all build/torture/inject.so
	@if tools/fuzz probe; then $(MAKE) $(SUB) fuzz-programs; fi
	@MOEFOLD=./moefold python3 tests/torture/torture.py

bench: all ## Run every bench/*.sh
	@$(MAKE) $(SUB) bench-programs
	@set -e; for b in $(sort $(wildcard bench/*.sh)); do \
	    echo "== $$b"; \
	    MOEFOLD=./moefold bash $$b; \
	done

bench-cuda: ## Build the GPU probes where nvcc is found (a Hopper GPU is needed to run them)
	@if [ -z '$(NVCC)' ]; then echo "bench-cuda: there is no nvcc here; nothing is built"; \
	else $(MAKE) $(SUB) cuda-programs; fi

cuda-blackwell: ## Compile the GPU's rows without wgmma, and their test, for Blackwell (sm_100a): not run
	@if [ -z '$(NVCC)' ]; then echo "cuda-blackwell: there is no nvcc here; nothing is built"; \
	else $(MAKE) $(SUB) blackwell-backend; fi

cuda: ## Build the GPU's kernels and their test where nvcc is found
	@if [ -z '$(NVCC)' ]; then echo "cuda: there is no nvcc here; nothing is built"; \
	else $(MAKE) $(SUB) cuda-backend; fi

screens: all ## Rewrite tests/screens: what commands print, numbers masked
	@MOEFOLD=./moefold bash tests/screens/screens.sh --write

guard-record: all ## Rewrite tests/guard: states, prices, plans, checks (only where they are meant to change)
	@$(MAKE) $(SUB) build/tests/guard/test_guard_state
	@build/tests/guard/test_guard_state --record
	@MOEFOLD=./moefold bash tests/guard/test_guard_price.sh --record
	@$(MAKE) $(SUB) build/bench/accuracy
	@MOEFOLD=./moefold bash tests/guard/test_frozen.sh --record

# The last commit before the source was rebuilt. A clone without it has the stored results.
ORACLE := cd87d9a1
oracle: ## Build build/oracle/moefold, the program whose answers tests/guard has recorded
	@git cat-file -e $(ORACLE) 2>/dev/null || { \
	    echo "oracle: commit $(ORACLE) is not in this clone; tests/guard has its answers"; exit 1; }
	@mkdir -p build/oracle/source
	@git archive $(ORACLE) | tar x -C build/oracle/source
	@$(MAKE) $(SUB) -C build/oracle/source cpu-program
	@ln -sf source/moefold build/oracle/moefold

accuracy: all ## Write docs/ACCURACY.md: our prices beside published speeds
	@tools/accuracy

directions: all ## Write docs/DIRECTIONS.md: known configurations and published differences
	@tools/directions

install: all install-library ## Install into PREFIX (/usr/local), below DESTDIR if given
	install -D -m 755 $(PROGRAM) '$(DESTDIR)$(PREFIX)/bin/moefold'
	$(if $(BACKENDS),install -D -m 755 -t '$(DESTDIR)$(PREFIX)/lib/moefold' $(BACKENDS))
	install -d '$(DESTDIR)$(PREFIX)/share/moefold/recipes'
	install -m 644 $(wildcard recipes/*.yaml) '$(DESTDIR)$(PREFIX)/share/moefold/recipes'
	install -d '$(DESTDIR)$(PREFIX)/share/man/man1'
	$(PROGRAM) man > '$(DESTDIR)$(PREFIX)/share/man/man1/moefold.1'
	install -d '$(DESTDIR)$(PREFIX)/share/bash-completion/completions'
	$(PROGRAM) completion bash > '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/moefold'
	install -d '$(DESTDIR)$(PREFIX)/share/zsh/site-functions'
	$(PROGRAM) completion zsh > '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_moefold'

install-library: $(SHARED) $(STATIC) ## Install the library alone: header, shared, static, pkg-config, hardware files
	install -D -m 644 include/moefold.h '$(DESTDIR)$(PREFIX)/include/moefold.h'
	install -D -m 644 $(STATIC) '$(DESTDIR)$(PREFIX)/lib/libmoefold.a'
	install -m 755 $(SHARED) '$(DESTDIR)$(PREFIX)/lib'
	ln -sf $(notdir $(SHARED)) '$(DESTDIR)$(PREFIX)/lib/$(SONAME)'
	ln -sf $(SONAME) '$(DESTDIR)$(PREFIX)/lib/libmoefold.so'
	install -d '$(DESTDIR)$(PREFIX)/lib/pkgconfig' '$(DESTDIR)$(PREFIX)/share/moefold/hardware'
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' src/library/moefold.pc.in \
	    > '$(DESTDIR)$(PREFIX)/lib/pkgconfig/moefold.pc'
	install -m 644 LICENSE '$(DESTDIR)$(PREFIX)/share/moefold'
	install -m 644 $(wildcard hardware/*.yaml hardware/*.txt) '$(DESTDIR)$(PREFIX)/share/moefold/hardware'

uninstall: ## Remove what install and install-library have put into PREFIX
	rm -rf '$(DESTDIR)$(PREFIX)/lib/moefold' '$(DESTDIR)$(PREFIX)/share/moefold'
	rm -f $(addprefix '$(DESTDIR)$(PREFIX)'/,bin/moefold include/moefold.h lib/libmoefold.a \
	    lib/libmoefold.so lib/$(SONAME) lib/$(notdir $(SHARED)) lib/pkgconfig/moefold.pc \
	    share/man/man1/moefold.1 share/bash-completion/completions/moefold \
	    share/zsh/site-functions/_moefold)

deps: ## Install all that building, testing and linting need (Debian, Ubuntu)
	@CC='$(CC)' tools/deps build test lint

clean: ## Remove everything that was built
	rm -rf build moefold

help: ## This list
	@echo "make TARGET, where TARGET is"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
	    awk -F'|' '{ printf "  %-13s %s\n", $$1, $$2 }'

# ---- how it is built -----------------------------------------------------------------------------

moefold: build/moefold $(BACKENDS)
	@ln -sf build/moefold moefold

cpu-program: build/moefold $(MPI_OBJECT)
	@ln -sf build/moefold moefold

$(PROGRAM): $(BUILD)/obj/$(MAIN:.c=.o) $(LIBRARY)
	$(call say,link,$@)
	$(Q)$(COMPILE) $^ $(LDFLAGS) $(LINK_LIBS) -o $@

# Rooms that no command of the planner needs are left out, and of the commands those that compute.
# Its objects are the program's.
COMPUTING := $(wildcard $(foreach name,bench* convert eval gpu join parity rank_threads ranks* runtime train \
    tune tune_cluster,src/cli/$(name).c))
PLANNING  := $(filter-out $(COMPUTING) src/measure/bench/%,$(filter $(foreach room,base hardware op job config \
    model layout rules ir predict plan measure answer report library cli,src/$(room)/%),$(SOURCES)))

$(BUILD)/obj/src/cli/main-planner.o: $(MAIN) $(BUILD)/flags | check-deps $(MADE)
	@mkdir -p $(@D)
	$(call say,$(CC),$<)
	$(Q)$(COMPILE) -DPLANNER_ALONE -MMD -MP -c $< -o $@

$(BUILD)/libplanner.a: $(PLANNING:%.c=$(BUILD)/obj/%.o) $(BUILD)/sources
	@rm -f $@
	$(Q)ar rcs $@ $(filter %.o,$^)

$(BUILD)/moefold-planner: $(BUILD)/obj/src/cli/main-planner.o $(BUILD)/libplanner.a
	$(call say,link,$@)
	$(Q)$(COMPILE) $^ $(LDFLAGS) $(LINK_LIBS) -o $@

$(TEST_PROGRAM): $(BUILD)/obj/$(MAIN:.c=.o) $(EMULATED) $(LIBRARY)
	$(call say,link,$@)
	$(Q)$(COMPILE) $^ $(LDFLAGS) $(LINK_LIBS) -o $@

$(LIBRARY): $(OBJECTS) $(BUILD)/sources
	@rm -f $@
	$(Q)ar rcs $@ $(OBJECTS)

# Kinds of operations and positions of their operands by name. Which sources include it is known
# after the first compilation only, so all wait for it. It is written where it changed: every kernel
# includes it, and most edits of the tables are of formats and explanations.
$(OPS) $(JOB): %: %.new
	@cmp -s $< $@ || cp $< $@

$(OPS:%=%.new): tools/op_names $(wildcard src/op/ops*.def) | check-deps
	@mkdir -p $(@D)
	$(call say,names,$(@:.new=))
	$(Q)tools/op_names $(@:$(BUILD)/generated/op/op_%.h.new=%) $(CC) > $@

$(JOB:%=%.new): tools/job_fields src/config/knobs.def | check-deps
	@mkdir -p $(@D)
	$(call say,names,$(@:.new=))
	$(Q)tools/job_fields $(if $(findstring words,$@),words,fields) $(CC) > $@

# Ids of rules as users read them: identifiers of C have underscores, these have dashes.
$(RULE_IDS): $(wildcard src/rules/rules_*.def)
	@mkdir -p $(@D)
	$(Q)sed -nE 's/^[RV]\((\w+),.*/\1/p' $^ | sed -E 'h; y/_/-/; G; s/(.*)\n(.*)/#define ID_\2 "\1"/' > $@

# The report's page goes into the program as text.
$(BUILD)/generated/report/%.h: src/report/% tools/text_lines
	@mkdir -p $(@D)
	$(Q)tools/text_lines $< > $@

$(BUILD)/obj/src/report/page.o: $(PAGE)

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | check-deps $(MADE)
	@mkdir -p $(@D)
	$(call say,$(CC),$<)
	$(Q)$(COMPILE) -MMD -MP -c $< -o $@

# It calls nothing of the program, so it is made of these files alone.
$(BUILD)/moefold-mpi.so: $(MPI_ALSO) $(MPI_PART) $(BUILD)/flags | $(MADE)
	$(call say,link,$@)
	$(Q)$(COMPILE) $(shell mpicc --showme:compile) -fPIC -shared -MMD -MP -MF $@.d -MT $@ \
	    $(MPI_ALSO) $(MPI_PART) $(LDFLAGS) $(shell mpicc --showme:link) -o $@

# Loops of kernels, and those that a search runs by the million, are worth more of the compiler's
# time.
$(BUILD)/obj/src/backend/kernels/%.o $(BUILD)/obj/src/backend/cpu/%.o: private CFLAGS += -O3
$(BUILD)/obj/src/hardware/%.o: private CFLAGS += -O3
$(BUILD)/obj/src/predict/%.o: private CFLAGS += -O3
$(BUILD)/obj/src/plan/%.o: private CFLAGS += -O3
$(BUILD)/obj/src/ir/%.o: private CFLAGS += -O3
$(BUILD)/obj/src/op/%.o: private CFLAGS += -O3
$(BUILD)/obj/src/backend/comm/adder.o $(BUILD)/moefold-mpi.so: private CFLAGS += -O3
$(addprefix $(BUILD)/obj/src/base/dtype,.o .pic.o): private CFLAGS += -O3
$(BUILD)/obj/src/backend/cpu/kernels/plain_quant.o: private CFLAGS += -fno-trapping-math
$(BUILD)/obj/src/base/philox.o: private CFLAGS += -O3 -fno-math-errno
$(addprefix $(BUILD)/obj/src/backend/cpu/kernels/update,.o .pic.o): private CFLAGS += -fno-math-errno

# The planner by itself: rooms that know no backend and no command, and what they may call of base.
PLANNER := $(filter-out $(BUILD)/obj/src/base/object.o $(BUILD)/obj/src/base/stop.o, \
    $(filter $(foreach room,base hardware op job config model layout rules ir predict plan,\
    $(BUILD)/obj/src/$(room)/%),$(OBJECTS)))

# What other programs link: the planner with its questions (include/moefold.h), without OpenMP and
# dlopen. Only names of moefold.map leave it. Objects are those of the program, which lie anywhere, too
# (PIE, the default of Debian's compilers), but for those that name data of libc or of a thread.
ASKED      := $(PLANNER) $(BUILD)/obj/src/measure/profile/fixes.o \
    $(filter $(foreach room,answer library,$(BUILD)/obj/src/$(room)/%),$(OBJECTS))
ASKED_DATA := $(addprefix $(BUILD)/obj/src/base/,arena.o caller.o colour.o file.o waiting.o)
ASKED_PIC  := $(filter-out $(ASKED_DATA),$(ASKED)) $(ASKED_DATA:.o=.pic.o)

$(SHARED): $(ASKED_PIC) src/library/moefold.map
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(Q)$(CC) $(SANITIZE) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=src/library/moefold.map \
	    -Wl,--no-undefined $(ASKED_PIC) $(LDFLAGS) $(shell pkg-config --libs libfyaml jansson zlib) \
	    -lm -o $@

# One object, so that names can be hidden in it, too.
$(STATIC): $(ASKED)
	@mkdir -p $(@D)
	$(call say,ar,$@)
	$(Q)ld -r $(ASKED) -o $(@:.a=.o)
	$(Q)objcopy --wildcard --keep-global-symbol='moefold_*' $(@:.a=.o)
	@rm -f $@
	$(Q)ar rcs $@ $(@:.a=.o)

# Two hundred programs are linked with the whole library: lld takes half of the usual linker's time.
TEST_LINK := $(if $(shell command -v ld.lld),-fuse-ld=lld)

# Tests run for seconds: what they call is optimized, and they themselves hardly.
$(BUILD)/tests/%: private CFLAGS += -O1
$(BUILD)/tests/%: tests/%.c $(EMULATED) $(LIBRARY) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,$(CC),$<)
	$(Q)$(COMPILE) -MMD -MP -MF $@.d -MT $@ $< $(EMULATED) $(LIBRARY) $(TEST_LINK) \
	    $(LDFLAGS) $(LINK_LIBS) -lcmocka -o $@

$(BUILD)/tests/plan/test_alone: tests/plan/test_alone.c $(PLANNER) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,$(CC),$<)
	$(Q)$(filter-out -fopenmp,$(COMPILE)) -MMD -MP -MF $@.d -MT $@ $< $(PLANNER) $(TEST_LINK) \
	    $(LDFLAGS) $(shell tools/static-libs libfyaml jansson zlib) -lm -lcmocka -o $@

$(BUILD)/bench/%: bench/%.c $(LIBRARY) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,$(CC),$<)
	$(Q)$(COMPILE) -MMD -MP -MF $@.d -MT $@ $< $(LIBRARY) $(LDFLAGS) $(LINK_LIBS) -o $@

# wgmma and setmaxnreg exist for sm_90a alone; -arch=sm_90a compiles for sm_90 too, and fails. The
# toolkit's stub of the driver is linked, never run.
$(BUILD)/bench/cuda/%: bench/cuda/%.cu
	@mkdir -p $(@D)
	$(call say,nvcc,$<)
	$(Q)$(NVCC) -std=c++17 $(GPU_ONLY) $(NVCCFLAGS) \
	    -Isrc -I$(BUILD)/generated -MMD -MP -MF $@.d -MT $@ $< $(CUDA_WITH) \
	    -L$(dir $(realpath $(NVCC)))../lib64/stubs -L$(dir $(realpath $(NVCC)))../lib/stubs \
	    $(CUDA_LIBS) -o $@

WITH_ROWS := $(addprefix $(BUILD)/bench/cuda/,rows_time host_memory)
$(WITH_ROWS): $(CUDA_OBJECTS)
$(WITH_ROWS): private CUDA_WITH := $(CUDA_OBJECTS)
$(WITH_ROWS): private CUDA_LIBS := -lcublasLt -lgomp
HOST_ADAMW := $(BUILD)/obj/src/backend/cpu/kernels/update.pic.o
$(BUILD)/bench/cuda/host_memory: $(HOST_ADAMW)
$(BUILD)/bench/cuda/host_memory: private CUDA_WITH += $(HOST_ADAMW)
$(BUILD)/bench/cuda/grouped_gemm: private CUDA_LIBS := -lcublas
$(BUILD)/bench/cuda/grouped_fp8: private CUDA_LIBS := -lcublasLt
$(BUILD)/bench/cuda/ipc_memory: private CUDA_LIBS := -lcuda
$(BUILD)/bench/cuda/lt_determinism: private CUDA_LIBS := -lcublasLt
$(BUILD)/bench/cuda/host_cost: private CUDA_LIBS := -lcublasLt -lcudnn
$(BUILD)/bench/cuda/memory_outside: private CUDA_LIBS := -lcublas -lcublasLt -lcudnn
$(BUILD)/bench/cuda/sdpa_offline: private CUDA_LIBS := -lcudnn
$(BUILD)/bench/cuda/sdpa_time: private CUDA_LIBS := -lcudnn

# Those with attention take its graphs from the rows.
SDPA_PROBES := $(addprefix $(BUILD)/bench/cuda/,host_cost memory_outside sdpa_offline sdpa_time)
SDPA_GRAPH  := $(BUILD)/obj/src/backend/cuda/kernels/sdpa_graph.pic.o
$(SDPA_PROBES): $(SDPA_GRAPH)
$(SDPA_PROBES): private CUDA_WITH := $(SDPA_GRAPH)

# For Blackwell, which has no wgmma: all other rows and their test, compiled and not run. Programs
# are refused there; the test has cuBLASLt's products in MXFP8 and NVFP4 beside the CPU's.
WGMMA        := $(addprefix src/backend/cuda/kernels/,fast_fp8.cu fast_fp8_weight.cu fast_grouped.cu \
                fast_wgmma.cu)
BLACKWELL    := $(patsubst %.cu,$(BUILD)/obj/sm_100a/%.cu.o,$(filter-out $(WGMMA),$(CUDA_PART)))
BLACKWELL_C  := $(CUDA_C:%.c=$(BUILD)/obj/%.pic.o) \
                $(BUILD)/obj/src/backend/cuda/kernels/blackwell/no_wgmma.pic.o
blackwell-backend: $(BUILD)/tests/cuda/rows-sm_100a
	@:

$(BUILD)/tests/cuda/rows-sm_100a: $(CUDA_TEST) $(BLACKWELL) $(BLACKWELL_C) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(Q)$(COMPILE) $^ $(LDFLAGS) $(CUDA_RUNTIME) $(LINK_LIBS) -o $@

$(BUILD)/obj/sm_100a/%.cu.o: %.cu $(BUILD)/flags | $(MADE)
	@mkdir -p $(@D)
	$(call say,nvcc sm_100a,$<)
	$(Q)$(NVCC) -std=c++17 -gencode arch=compute_100a,code=sm_100a --extended-lambda -Isrc \
	    -I$(BUILD)/generated $(NVCCFLAGS) -Xcompiler -fPIC -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $@

# The GPU's kernels take minutes: how many files of theirs there are still to compile, this one included.
kernels_left = $(shell set -- $(CUDA_PART:%.cu=$(BUILD)/obj/%.cu.o); n=0; \
    for o; do [ -e "$$o" ] || n=$$((n + 1)); done; [ $$n = 0 ] || echo " ($$n of $$# left)")

cuda-backend: $(BUILD)/moefold-cuda.so $(BUILD)/tests/cuda/rows $(BUILD)/tests/cudnn/plans $(NO_DRIVER)
	@:

$(BUILD)/obj/%.cu.o: %.cu $(BUILD)/flags | $(MADE)
	@mkdir -p $(@D)
	$(call say,nvcc,$<$(kernels_left))
	$(Q)$(NVCC) -std=c++17 $(GPU_ONLY) --extended-lambda -Isrc -I$(BUILD)/generated $(NVCCFLAGS) \
	    -Xcompiler -fPIC -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $@

$(BUILD)/obj/%.pic.o: %.c $(BUILD)/flags | $(MADE)
	@mkdir -p $(@D)
	$(call say,$(CC),$<)
	$(Q)$(COMPILE) -fPIC -MMD -MP -c $< -o $@

$(BUILD)/moefold-cuda.so: $(CUDA_OBJECTS)
	$(call say,link,$@)
	$(Q)$(CC) -shared -fopenmp $^ $(LDFLAGS) $(CUDA_RUNTIME) -o $@

# CUDA's headers are not ours to warn about.
$(BUILD)/obj/src/backend/cuda/kernels/%.pic.o $(BUILD)/obj/src/backend/cuda/device/%.pic.o: \
    private OUR_FLAGS += -isystem $(CUDA_HOME)/include
$(BUILD)/obj/tests/cuda/%.o: private OUR_FLAGS += -isystem $(CUDA_HOME)/include

$(BUILD)/tests/cuda/rows: $(CUDA_TEST) $(CUDA_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(Q)$(COMPILE) $^ $(LDFLAGS) $(CUDA_RUNTIME) $(LINK_LIBS) -o $@

# Plans of attention, which need neither a GPU nor CUDA's runtime.
PLANS := $(addprefix $(BUILD)/obj/src/backend/cuda/kernels/,sdpa.pic.o sdpa_graph.pic.o cudnn_open.pic.o) \
         $(BUILD)/obj/src/base/status.pic.o $(BUILD)/obj/src/base/foreign.pic.o

$(BUILD)/obj/tests/cudnn/%.o: private OUR_FLAGS += -isystem $(CUDA_HOME)/include

$(BUILD)/tests/cudnn/plans: $(BUILD)/obj/tests/cudnn/plans.o $(PLANS)
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(Q)$(COMPILE) $^ $(LDFLAGS) -pthread -ldl -lm -o $@

# Goes into other programs (LD_PRELOAD), so it brings no library with it.
build/torture/inject.so: tests/torture/inject.c
	@mkdir -p $(@D)
	$(call say,$(CC),$<)
	$(Q)$(CC) -std=c11 $(WARNINGS) $(CFLAGS) -fPIC -shared $< -ldl -o $@

$(NO_DRIVER): bench/cuda/no_driver.c
	@mkdir -p $(@D)
	$(call say,$(CC),$<)
	$(Q)$(COMPILE) -fPIC -shared $< -o $@

$(BUILD)/fuzz_%: tests/fuzz/fuzz_%.c $(LIBRARY) $(BUILD)/flags
	$(call say,$(CC),$<)
	$(Q)$(COMPILE) -fsanitize=fuzzer -MMD -MP -MF $@.d -MT $@ $< $(LIBRARY) \
	    $(TEST_LINK) $(LDFLAGS) $(LINK_LIBS) -o $@

# Other flags or another set of files mean another build; both are compared with what was used last.
$(BUILD)/flags: FORCE
	@mkdir -p $(BUILD)
	@echo '$(COMPILE) $(LDFLAGS)' | cmp -s - $@ || echo '$(COMPILE) $(LDFLAGS)' > $@

$(BUILD)/sources: FORCE
	@mkdir -p $(BUILD)
	@echo '$(SOURCES)' | cmp -s - $@ || echo '$(SOURCES)' > $@

check-deps:
	@CC='$(CC)' tools/deps --check build

test-programs: $(TESTS) $(TEST_PROGRAM) $(BUILD)/moefold-planner $(MPI_OBJECT)
	@:
bench-programs: $(BENCHES) $(TEST_PROGRAM)
	@:
cuda-programs: $(PROBES) $(NO_DRIVER) $(TEST_PROGRAM)
	@:
FUZZ_OBJECTS := $(patsubst build/fuzz/%,$(BUILD)/obj/tests/fuzz/%.o,$(FUZZERS))
fuzz-objects: $(FUZZ_OBJECTS)

# Our library is instrumented throughout, as far as fuzzers reach: what they need of it is read off
# the plain objects, and where that is not all, everything is built. The two readers that we link
# are tested as they come. The + tells make that this line calls make, which it does not see through
# the variable: without it the objects would be compiled one after the other.
FUZZ_MAKE = $(MAKE) $(SUB) BUILD=build/fuzz CC=clang CFLAGS='-O1 -gline-tables-only' $(FUZZERS) \
    SANITIZE='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined'
fuzz-programs: build/fuzz/words.dict $(LIBRARY) $(FUZZ_OBJECTS)
	+@$(FUZZ_MAKE) SOURCES="$$(tools/needs $(FUZZ_OBJECTS) -- $(OBJECTS) | \
	    sed 's,^$(BUILD)/obj/,,; s,o$$,c,' | tr '\n' ' ')" || $(FUZZ_MAKE)

# Words that the fuzzers try: all that stands in quotes in the readers and their tables, help apart.
build/fuzz/words.dict: $(wildcard src/config/*.def src/model/*.def src/config/models/*.def src/config/*.c src/config/models/*.c src/model/*.c)
	@mkdir -p $(@D)
	@sed 's/\.help = "[^"]*"//' $^ | grep -oE '"[A-Za-z0-9_.+!?| -]+"' | tr -d '"' | \
	    tr ' |' '\n\n' | sed '/^..$$/d; /^.$$/d; /^$$/d; s/^[!+?]--/--/; s/.*/"&"/' | sort -u > $@

-include $(BACKENDS:=.d)
-include $(OBJECTS:.o=.d) $(EMULATED:.o=.d) $(BUILD)/obj/$(MAIN:.c=.d) $(BUILD)/obj/$(MAIN:.c=-planner.d) $(TESTS:=.d) $(BENCHES:=.d) $(FUZZERS:=.d)
-include $(PROBES:=.d) $(CUDA_OBJECTS:.o=.d) $(CUDA_TEST:.o=.d) $(BLACKWELL:.o=.d)
