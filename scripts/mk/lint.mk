# SPDX-License-Identifier: Apache-2.0
#
# Checks on the sources, and the sanitizers' run.  Each source file leaves a stamp
# per check, so that only what changed is checked again.

C_FILES := $(sort $(wildcard include/*.h loader/*.[ch] loader/cli/*.[ch] tests/*/*.[ch] tests/emulator/*/*.[ch] scripts/*.c))
PYTHONS := $(wildcard scripts/*.py scripts/gpu/*.py scripts/conformance/*.py tests/client/*.py)
SCRIPTS := $(wildcard scripts/*.sh scripts/conformance/*.sh) .ci/run
LINT    := $(BUILD)/lint
TOOLS   := $(BUILD)/lint-tools

.PHONY: lint
lint: lint-format lint-warnings lint-tidy lint-scripts lint-separation lint-rules lint-conformance ## Format, clang-tidy, warnings as errors, scripts

# The pinned tools; the stamp is older than any object of this run.
$(TOOLS)/pinned: scripts/setup.sh | $(BUILD)/config.mk
	@scripts/setup.sh lint
	@touch $@

CLANG_FORMAT := $(TOOLS)/bin/clang-format
CLANG_TIDY   := $(TOOLS)/bin/clang-tidy

.PHONY: format
format: $(TOOLS)/pinned ## Format the C sources in place
	@PYTHONPATH=$(TOOLS) $(CLANG_FORMAT) -i $(C_FILES)

.PHONY: lint-format
lint-format: $(LINT)/format.ok
$(LINT)/format.ok: $(C_FILES) .clang-format $(TOOLS)/pinned
	@echo "  FORMAT  $(words $(C_FILES)) files"
	@mkdir -p $(@D)
	@PYTHONPATH=$(TOOLS) $(CLANG_FORMAT) --dry-run --Werror $(C_FILES)
	@touch $@

# A user's build only warns; here a warning is an error.
.PHONY: lint-warnings
lint-warnings: $(ALL_SRC:%.c=$(BUILD)/obj/%.o)
	@for o in $(ALL_SRC:%.c=$(BUILD)/obj/%); do \
	  if [ -s $$o.warn ]; then cat $$o.warn >&2; failed=1; fi; done; \
	if [ -n "$${failed:-}" ]; then echo "lint: the compiler warned" >&2; exit 1; fi

.PHONY: lint-tidy
lint-tidy: $(ALL_SRC:%=$(LINT)/%.tidy)
$(LINT)/%.c.tidy: %.c $(BUILD)/obj/%.o .clang-tidy $(TOOLS)/pinned
	@mkdir -p $(@D)
	@echo "  TIDY    $<"
	@PYTHONPATH=$(TOOLS) $(CLANG_TIDY) --quiet $< -- $(call compile_flags,$<) 2>$@.err || \
	  { cat $@.err >&2; exit 1; }
	@rm -f $@.err
	@touch $@

.PHONY: lint-scripts
lint-scripts: $(LINT)/scripts.ok
$(LINT)/scripts.ok: $(SCRIPTS) $(PYTHONS)
	@mkdir -p $(@D)
	@for script in $(SCRIPTS); do bash -n $$script; done
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS); fi
	@for script in $(PYTHONS); do \
	  python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' $$script; done
	@touch $@

.PHONY: lint-separation
lint-separation: $(LINT)/separation.ok
$(LINT)/separation.ok: $(BUILD)/tests/libsupport.a $(BUILD)/emu/libemulator.a scripts/check-separation.sh
	@mkdir -p $(@D)
	@BUILD=$(BUILD) scripts/check-separation.sh
	@touch $@

# Every rule of the emulated driver has a pair of programs, or a reason.
.PHONY: lint-rules
lint-rules:
	@scripts/check-rules.sh

# ---- sanitizers --------------------------------------------------------------

# Suites that only start other programs have nothing for the sanitizers.
ASAN_PROGRAMS := $(filter-out %/test_model %/test_templates %/test_mutate %/test_mailbox_mpi %/test_gpu_programs %/test_cli_bench %/test_client %/test_conformance,$(SUITES:%=$(BUILD)/asan/tests/%))

.PHONY: asan-sample
asan-sample: $(ASAN_PROGRAMS) $(BUILD)/asan/bin/barewarp $(BUILD)/asan/emu/libcuda.so.1 $(BUNDLE) $(TEST_BUNDLE)
	@echo "address and undefined-behaviour sanitizers, at most 3 runs of each looped test:"
	@BUILD=$(BUILD)/asan BW_SEED="$(SEED)" BW_SAMPLE=3 scripts/run-suites.sh $(ASAN_PROGRAMS)
