# SPDX-License-Identifier: Apache-2.0
#
# barewarp.  `make help` lists the targets; everything built goes to $(BUILD).
#
#   this file               targets, and the variables a user may set
#   scripts/mk/kernels.mk   ptx/ -> .ptx -> .cubin -> bundle
#   scripts/mk/programs.mk  libraries, command line, emulated driver, test programs
#   scripts/mk/gpu.mk       what runs on a machine with GPUs
#   scripts/mk/lint.mk      format, clang-tidy, warnings as errors, separation
#   scripts/mk/rules.mk     the rule pairs of the emulated driver
#
# Before anything is built, scripts/setup.sh finds or fetches the tools and writes
# $(BUILD)/config.mk (make remakes an included file first, then starts over).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules --no-builtin-variables
# Without a -j of the user's: as many jobs as processors.
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
.DEFAULT_GOAL := all

# ---- what a user may set -----------------------------------------------------

BUILD  := build
PREFIX := /usr/local
CC     := $(if $(filter default undefined,$(origin CC)),cc,$(CC))
AR     := $(if $(filter default undefined,$(origin AR)),ar,$(AR))
CFLAGS ?= -O2 -g
# check: K, a glob on suite names, else on test cases; SEED, of every random choice.
K      :=
SEED   :=
export BUILD CUDA_HOME

VERSION_PART = $(shell sed -n 's/^.define BW_VERSION_$(1) *//p' include/barewarp.h)
VERSION = $(call VERSION_PART,MAJOR).$(call VERSION_PART,MINOR).$(call VERSION_PART,PATCH)

# ---- targets that need no tools ----------------------------------------------

NO_SETUP := help clean uninstall fuzz review

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' Makefile scripts/mk/*.mk
	@echo "Variables: BUILD PREFIX DESTDIR CC CFLAGS K SEED; CUDA_HOME from the environment"

.PHONY: clean
clean: ## Remove everything built; what was fetched into the build folder stays
	@if [ -d "$(BUILD)" ]; then \
	  find "$(BUILD)" -mindepth 1 -maxdepth 1 ! -name toolchain ! -name lint-tools ! -name nvdisasm \
	    ! -name python-client \
	    -exec rm -rf {} +; fi

.PHONY: uninstall
uninstall: ## Remove what install put under PREFIX
	rm -f $(INSTALLED)

# Not there yet: say so, and fail.
LATER := fuzz review
.PHONY: $(LATER)
$(LATER):
	@echo "make $@: not part of this version yet" >&2; exit 1

# ---- set-up ------------------------------------------------------------------

GOALS := $(or $(MAKECMDGOALS),all)
ifneq ($(filter-out $(NO_SETUP),$(GOALS)),)

include $(BUILD)/config.mk
include $(BUILD)/kernels.mk
include scripts/mk/kernels.mk
include scripts/mk/programs.mk
include scripts/mk/mutate.mk
include scripts/mk/lint.mk
include scripts/mk/gpu.mk
include scripts/mk/rules.mk
include scripts/mk/conformance.mk

# Run at every start: config.mk is only touched when something changed.
$(BUILD)/config.mk: FORCE
	@scripts/setup.sh
.PHONY: FORCE

# ---- building ----------------------------------------------------------------

.PHONY: all
all: kernels bundle lib cli emu tests ## Kernels, bundle, libraries, command line, emulated driver, tests

.PHONY: kernels
kernels: $(CUBINS) $(BUILD)/resources.tsv ## Assemble every specialization

.PHONY: ptx
ptx: ## Expand the specializations that match K=KEY and print where they are
	@$(if $(K),,echo "make ptx: say which, for example K=t1x1f_h1" >&2; exit 1)
	@$(if $(PTX_WANTED),,echo "make ptx: no specialization matches K=$(K)" >&2; exit 1)
	@$(MAKE) --no-print-directory -s $(PTX_WANTED)
	@printf '%s\n' $(PTX_WANTED)

.PHONY: static
static: $(BUILD)/resources.tsv ## Registers, occupancy, instruction counts of what K=GLOB matches, both architectures
	@$(if $(K),,echo "make static: say which, for example K='t32x1f_h8'" >&2; exit 1)
	@$(if $(PTX_WANTED),,echo "make static: no specialization matches K=$(K)" >&2; exit 1)
	@nvdisasm=$$(scripts/setup.sh disassembler) && python3 scripts/static.py $(BUILD) "$$nvdisasm" \
	  $(PTX_WANTED:$(BUILD)/ptx/%.ptx=%)

.PHONY: bundle
bundle: $(BUNDLE) ## Pack the cubins into one file

.PHONY: dist-bundle
dist-bundle: $(BUNDLE) ## Copy the bundle to build/dist with its checksum
	@mkdir -p $(BUILD)/dist
	cp $(BUNDLE) $(BUILD)/dist/barewarp-$(VERSION).bundle
	cd $(BUILD)/dist && sha256sum barewarp-$(VERSION).bundle > barewarp-$(VERSION).bundle.sha256
	@cat $(BUILD)/dist/barewarp-$(VERSION).bundle.sha256

.PHONY: lib cli emu tests
lib: $(LIBRARIES)
cli: $(CLI)
emu: $(EMU)
tests: $(SUITE_PROGRAMS)

# ---- running -----------------------------------------------------------------

.PHONY: demo
demo: $(CLI) $(EMU) $(BUNDLE) ## Run the kernels on tensors from files and compare with the references
	@BUILD=$(BUILD) BW_SEED="$(SEED)" scripts/demo.sh

CHECK_RUN = BUILD=$(BUILD) BW_SEED="$(SEED)" BW_K="$(K)" scripts/run-suites.sh

# The suites that K names; all of them if it names none, for then it means cases.
SUITES_OF_K := $(if $(K),$(shell for s in $(SUITES:test_%=%); do case $$s in ($(K)) echo test_$$s;; esac; done))
PROGRAMS_OF_K := $(or $(SUITES_OF_K:%=$(BUILD)/tests/%),$(SUITE_PROGRAMS))

# What the suite client can do without.
.PHONY: python-client
python-client: | $(BUILD)/config.mk
	@scripts/setup.sh python-client
check check-full: | $(if $(filter %/test_client,$(PROGRAMS_OF_K)),python-client)

# The suites come last, so that the last line is their count.  With K that is all.
.PHONY: check
check: $(if $(K),,lint asan-sample all) $(PROGRAMS_OF_K) $(EMU) $(BUNDLE) $(TEST_BUNDLE) ## Lint, sanitizers on a sample, every suite: the test to run
	@$(CHECK_RUN) $(PROGRAMS_OF_K)

.PHONY: check-full
check-full: lint asan-sample all $(TEST_BUNDLE) ## Everything, not only samples; resumes where it stopped
	@BW_FULL=1 $(CHECK_RUN) --resume $(BUILD)/check-full $(SUITE_PROGRAMS)

# ---- installing --------------------------------------------------------------

.PHONY: install
install: $(LIBRARIES) $(CLI) $(BUNDLE) ## Install under DESTDIR and PREFIX
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin include lib/pkgconfig share/barewarp)
	install -m 755 $(CLI) $(DESTDIR)$(PREFIX)/bin/barewarp
	install -m 644 include/*.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 $(BUILD)/lib/libbarewarp.a $(DESTDIR)$(PREFIX)/lib/
	install -m 755 $(BUILD)/lib/$(SO_FULL) $(DESTDIR)$(PREFIX)/lib/
	ln -sf $(SO_FULL) $(DESTDIR)$(PREFIX)/lib/$(SO_NAME)
	ln -sf $(SO_NAME) $(DESTDIR)$(PREFIX)/lib/libbarewarp.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' scripts/barewarp.pc.in \
	  > $(DESTDIR)$(PREFIX)/lib/pkgconfig/barewarp.pc
	install -m 644 $(BUNDLE) $(DESTDIR)$(PREFIX)/share/barewarp/

endif

INSTALLED = $(addprefix $(DESTDIR)$(PREFIX)/,bin/barewarp \
  $(wildcard include/*.h) lib/libbarewarp.a lib/libbarewarp.so \
  lib/libbarewarp.so.$(call VERSION_PART,MAJOR) lib/libbarewarp.so.$(VERSION) \
  lib/pkgconfig/barewarp.pc share/barewarp/barewarp.bundle)
