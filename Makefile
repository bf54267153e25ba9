# bench: make, make check, make run; `make help` lists the rest. Objects live in build*/, one folder
# a kind of build: BUILD is chosen from CC and SAN unless given.

ifeq ($(origin CC),default)
CC := gcc
endif
SAN ?=
comma := ,
BUILD ?= build$(if $(findstring clang,$(CC)),-clang)$(if $(SAN),-$(subst $(comma),-,$(SAN)))
PKG_CONFIG ?= pkg-config
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30
# The version is part of the verdict, see scripts/install_packages.sh.
CLANG_FORMAT ?= clang-format-14
CLANG_TIDY ?= clang-tidy-14
# How far the analyser looks into a function. clang's own bound, 225000, takes four times as long.
ANALYZER_NODES ?= 40000
# Debian's jsonschema belongs to Debian's python3, which need not be the first in PATH.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)

# jemalloc and the sanitizers both want to be malloc.
PACKAGES := liburing jansson libxxhash sqlite3 libpq $(if $(SAN),,jemalloc)
TEST_PACKAGES := cmocka

missing = $(shell for p in $(1); do $(PKG_CONFIG) --exists $$p 2>/dev/null || echo $$p; done)
ifneq ($(filter-out clean help format format-check,$(or $(MAKECMDGOALS),all)),)
MISSING := $(call missing,$(PACKAGES))
ifneq ($(MISSING),)
$(error missing libraries: $(MISSING); scripts/quickstart.sh installs them)
endif
endif
# What is missing for the tests is a failure in CI and a visible skip elsewhere.
MISSING_TEST := $(call missing,$(TEST_PACKAGES))
ifneq ($(and $(MISSING_TEST),$(CI),$(filter check tests,$(MAKECMDGOALS))),)
$(error missing libraries: $(MISSING_TEST); scripts/test.sh installs them)
endif

VERSION := 0.1.0
REVISION := $(shell git --no-optional-locks describe --always --dirty --abbrev=12 --exclude='*' \
	2>/dev/null || echo unknown)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wconversion $(if $(findstring clang,$(CC)),-Wno-string-conversion \
	-Wno-gnu-zero-variadic-macro-arguments)
CFLAGS ?= -O3 -g
# The program is linked with optimisation across files (docs/decisions.md); the objects hold plain
# code too, with which the tests link faster. gcc only: clang would need another linker.
LTO := $(if $(SAN)$(findstring clang,$(CC)),,yes)
SAN_CFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -DBENCH_SANITIZER)
ALL_CFLAGS := -std=gnu17 -I. -D_GNU_SOURCE $(WARNINGS) $(if $(WERROR),-Werror) \
	-fno-omit-frame-pointer $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null) \
	$(SAN_CFLAGS) -pthread $(CFLAGS) $(if $(LTO),-flto=auto -ffat-lto-objects)
# What a result tells of how bench was built: what the code and its speed depend on.
quote := "
TOLD_CFLAGS := $(strip -std=gnu17 -fno-omit-frame-pointer $(SAN_CFLAGS) -pthread $(CFLAGS) \
	$(if $(LTO),-flto=auto))
VERSION_CFLAGS := -DBENCH_VERSION='"$(VERSION)"' -DBENCH_REVISION='"$(REVISION)"' \
	-DBENCH_FLAGS='"$(subst $(quote),\$(quote),$(TOLD_CFLAGS))"'
ALL_LDFLAGS := -pthread -Wl,-z,relro,-z,now $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
LIBS := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null) -lm
TEST_LIBS := $(shell $(PKG_CONFIG) --libs $(TEST_PACKAGES) 2>/dev/null)

# Everything but main is a library, which the tests link.
LIB_SOURCES := $(sort $(filter-out cmd/main.c,\
	$(wildcard cmd/*.c engine/*.c engine/base/*.c journal/*.c stub_model/*.c)))
TEST_LIB_SOURCES := $(sort $(wildcard tests/lib/*.c))
TEST_SOURCES := $(if $(MISSING_TEST),,$(sort $(wildcard tests/unit/test_*.c tests/sim/test_*.c)))
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
ALL_SOURCES := cmd/main.c $(LIB_SOURCES) $(sort $(wildcard tests/*/*.c))
ALL_HEADERS := $(sort $(wildcard */*.h */*/*.h))

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
# What starts no thread and takes long: the thread sanitizer has nothing to see there.
ONE_THREAD := $(if $(filter thread,$(SAN)),tests/sim/% $(patsubst %,tests/unit/test_%.c,coalesce \
	dist dist_file exchange group_commit json_grammar merged message payload pool power_cut \
	record result_file resume))
TESTS := $(patsubst %.c,$(BUILD)/%,$(filter-out $(ONE_THREAD),$(TEST_SOURCES)))
REPLAYS := $(patsubst %,$(BUILD)/tests/fuzz/replay_%,$(FUZZ_NAMES))

.PHONY: all tests check run perf lint format format-check fuzz fuzz-all coverage install clean help
.PHONY: FORCE
# A line a file, the whole commands with V=1.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $@)
.DELETE_ON_ERROR:
.SECONDARY:
all: $(BUILD)/bench

$(BUILD)/bench: $(call objects,cmd/main.c) $(BUILD)/libbench.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $(if $(LTO),$(CFLAGS) -flto=auto) -o $@ $^ $(LIBS)

$(BUILD)/libbench.a: $(call objects,$(LIB_SOURCES))
	$(call say,AR)
	$(Q)rm -f $@ && $(if $(LTO),gcc-ar,ar) rcs $@ $^

$(BUILD)/libtest.a: $(call objects,$(TEST_LIB_SOURCES))
	$(call say,AR)
	$(Q)rm -f $@ && $(if $(LTO),gcc-ar,ar) rcs $@ $^

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) $(TEST_CFLAGS) -MMD -MP -c -o $@ $<

# Tests are compiled more often than they are waited for; the bare loops of make perf are measured.
$(BUILD)/obj/tests/%: TEST_CFLAGS := -O1 $(if $(LTO),-fno-lto)
$(BUILD)/obj/tests/perf/%: TEST_CFLAGS :=

# A stamp changes when its text does: other flags rebuild everything, another commit one object.
$(BUILD)/flags: TEXT = $(CC) $(ALL_CFLAGS)
$(BUILD)/revision: TEXT = $(VERSION) $(REVISION)
$(BUILD)/flags $(BUILD)/revision: FORCE
	@mkdir -p $(@D) && { echo '$(TEXT)' | cmp -s - $@ || echo '$(TEXT)' >$@; }
$(BUILD)/obj/cmd/version.o: $(BUILD)/revision
$(BUILD)/obj/cmd/version.o: private ALL_CFLAGS += $(VERSION_CFLAGS)

$(TESTS): $(BUILD)/%: $(BUILD)/obj/%.o $(BUILD)/libtest.a $(BUILD)/libbench.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $(if $(LTO),-fno-lto) -o $@ $^ $(TEST_LIBS) $(LIBS)

$(REPLAYS): $(BUILD)/tests/fuzz/replay_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o \
		$(BUILD)/obj/tests/fuzz/replay.o $(BUILD)/libbench.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $(if $(LTO),-fno-lto) -o $@ $^ $(LIBS)

tests: $(BUILD)/bench $(TESTS) $(REPLAYS)

# What a store does without an engine above it: make perf holds bench against these.
BARE := $(BUILD)/tests/perf/bare_sqlite $(BUILD)/tests/perf/bare_postgres
$(BUILD)/tests/perf/bare_sqlite: $(call objects,tests/perf/bare_sqlite.c)
$(BUILD)/tests/perf/bare_postgres: $(call objects,tests/perf/bare_postgres.c \
	tests/perf/bare_postgres_rows.c)
$(BARE):
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $(if $(LTO),-fno-lto) -o $@ $^ $(LIBS)

# Older sanitizers do not start where the kernel randomises addresses as widely as it does today.
RUN_TESTS := $(if $(SAN),$(shell setarch -R true 2>/dev/null && echo setarch -R)) \
	scripts/run_tests.sh
# What one stage of scripts/test.sh is enough for: the rules of the house; waiting for servers.
HOUSE_TESTS := scripts/check_includes.sh scripts/check_style.sh \
	"$(PYTHON) tests/integration/run_faults.py $(BUILD)/bench"
SCRIPT_TESTS := "$(PYTHON) tests/integration/run.py $(BUILD)/bench"
KILL_TESTS := "$(PYTHON) tests/kills/run.py $(BUILD)/bench"
REPLAY_TESTS := $(foreach n,$(FUZZ_NAMES),"$(BUILD)/tests/fuzz/replay_$n tests/fuzz/corpus/$n")
check: export SKIPPED ?= $(if $(MISSING_TEST),unit and simulation tests: $(MISSING_TEST) is missing)
check: export UBSAN_OPTIONS ?= print_stacktrace=1
check: export TSAN_OPTIONS ?= second_deadlock_stack=1
check: tests
	@scripts/with_postgres.sh "$(PYTHON)" $(RUN_TESTS) \
		$(SCRIPT_TESTS) $(HOUSE_TESTS) $(KILL_TESTS) $(TESTS) $(REPLAY_TESTS)

run: all
	$(BUILD)/bench -runs 20000 -concurrency 5000 -latency 50ms

perf: all $(BARE)
	$(PYTHON) scripts/perf.py $(BUILD)/bench
	$(PYTHON) scripts/perf_stores.py $(BUILD)/bench

format:
	$(CLANG_FORMAT) -i $(ALL_SOURCES) $(ALL_HEADERS)

format-check:
	$(CLANG_FORMAT) --dry-run -Werror $(ALL_SOURCES) $(ALL_HEADERS)

# All of them, whatever the first finds. What clang does not know of gcc's flags is left out.
lint:
	@status=0; \
	printf '%s\n' $(ALL_SOURCES) | xargs -P "$$(nproc)" -I{} $(CLANG_TIDY) --quiet {} -- \
		$(filter-out -flto% -ffat-lto-objects,$(ALL_CFLAGS)) $(VERSION_CFLAGS) \
		-Xclang -analyzer-config -Xclang max-nodes=$(ANALYZER_NODES) || status=1; \
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
		--error-exitcode=1 -I. cmd engine journal stub_model tests || status=1; \
	shellcheck scripts/*.sh .ci/run || status=1; \
	exit $$status

# New inputs are kept in the build folder; those worth keeping are copied into tests/fuzz/corpus/.
fuzz:
	$(MAKE) CC=clang SAN=fuzzer-no-link,address,undefined BUILD=build-fuzz fuzz-all
fuzz-all: $(addprefix fuzz-,$(FUZZ_NAMES))
$(addprefix fuzz-,$(FUZZ_NAMES)): fuzz-%: $(BUILD)/fuzz_%
	mkdir -p $(BUILD)/corpus/$*
	$< -max_total_time=$(FUZZ_SECONDS) -timeout=10 -artifact_prefix=$(BUILD)/crash-$*- \
		$(BUILD)/corpus/$* tests/fuzz/corpus/$*
$(BUILD)/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/libbench.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)

# Lines of ours that a run of all tests has executed, a line a file.
coverage:
	rm -rf build-coverage
	$(MAKE) BUILD=build-coverage CFLAGS='-O0 -g --coverage -fprofile-update=atomic' \
		LDFLAGS=--coverage HOUSE_TESTS= check
	@gcov -n $(patsubst %.c,build-coverage/obj/%.gcno,cmd/main.c $(LIB_SOURCES)) 2>/dev/null | \
		awk -F "[':% ]+" '/^File/ { file = $$2 } \
		/^Lines executed/ && file ~ /^(cmd|engine|journal|stub_model)\/.*\.c$$/ { \
			printf "%6.2f %%  %5d lines  %s\n", $$3, $$5, file; \
			all += $$5; run += $$3 * $$5; file = "" } \
		END { printf "%6.2f %%  %5d lines  in all\n", run / all, all }'

install: all
	install -Dm755 $(BUILD)/bench $(DESTDIR)$(PREFIX)/bin/bench
	install -Dm644 docs/bench.1 $(DESTDIR)$(PREFIX)/share/man/man1/bench.1

clean:
	rm -rf build build-*

help:
	@echo 'make            builds $(BUILD)/bench'
	@echo 'make check      runs all tests'
	@echo 'make run        runs the main job'
	@echo 'make perf       prints each figure that bench must reach beside its limit'
	@echo 'make lint       clang-tidy, cppcheck and shellcheck'
	@echo 'make format     formats the C sources'
	@echo 'make fuzz       fuzzes each parser for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make coverage   runs the tests and prints the share of lines that they reach'
	@echo 'make install    installs below DESTDIR and PREFIX=$(PREFIX)'
	@echo 'make clean      removes build*/'
	@echo
	@echo 'With CC=clang, SAN=address,undefined, SAN=thread or WERROR=1 for another kind of build.'

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
