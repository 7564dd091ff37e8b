# SPDX-License-Identifier: Apache-2.0
#
# ptx/<family>/table.tsv  --awk--> kernels.mk: the lists and one rule a specialization
#                         --m4---> ptx/<family>/<arch>/<key>.ptx
#                         --ptxas> cubin/<family>/<arch>/<key>.cubin and .log
#                         -------> resources.tsv, barewarp.bundle, test.bundle

# Rewrites file $(1) if its content is not $(2): what is made with these flags
# depends on that file, and so is remade when the flags change.
same  = $(and $(findstring x$(1)x,x$(2)x),$(findstring x$(2)x,x$(1)x))
stamp = $(if $(call same,$(file <$(1)),$(2)),,$(file >$(1),$(2)))

# -v: the report that resources.tsv and the bundle are filled from.  A spill or any
# use of local memory fails the build.  Line info lets profilers and debuggers show
# the line of PTX.
PTXAS_FLAGS := -v -lineinfo -warn-spills -warn-lmem-usage -Werror

TABLES := $(wildcard ptx/*/table.tsv)
KERNELS := $(KERNELS_SHIP) $(KERNELS_TEST)
CUBINS  := $(KERNELS:%=$(BUILD)/cubin/%.cubin)
BUNDLE  := $(BUILD)/barewarp.bundle
TEST_BUNDLE := $(BUILD)/test.bundle
# Packs them: `barewarp pack` as a program that has no bundle linked in.
PACK := $(BUILD)/bin/bw-pack

# make ptx K=: a key, or a glob on family/arch/key.
PTX_WANTED = $(if $(K),$(patsubst %,$(BUILD)/ptx/%.ptx,$(shell \
  for k in $(KERNELS); do case $$k in ($(K)|*/$(K)) echo $$k;; esac; done)))

ifneq ($(wildcard $(BUILD)/flags),)
$(call stamp,$(BUILD)/flags/ptxas,$(PTXAS) $(PTXAS_VERSION) $(PTXAS_FLAGS))
$(call stamp,$(BUILD)/flags/tables,$(TABLES))
endif

$(BUILD)/kernels.mk: $(TABLES) $(BUILD)/flags/tables scripts/kernels.awk
	@awk -v BUILD=$(BUILD) -f scripts/kernels.awk $(TABLES) /dev/null > $@.part
	@mv $@.part $@

$(BUILD)/flags/%: | $(BUILD)/config.mk
	@touch $@

# Written together with kernels.mk; only ever missing when removed by hand.
$(BUILD)/kernels/%.def:
	@awk -v BUILD=$(BUILD) -f scripts/kernels.awk $(TABLES) /dev/null > $(BUILD)/kernels.mk

$(BUILD)/ptx/%.ptx: $(BUILD)/kernels/%.def scripts/expand.sh $(wildcard ptx/lib/*)
	@echo "  M4      $*"
	@scripts/expand.sh $< $@

$(BUILD)/cubin/%.cubin: $(BUILD)/ptx/%.ptx scripts/assemble.sh $(BUILD)/flags/ptxas
	@echo "  PTXAS   $*"
	@scripts/assemble.sh $(BUILD)/kernels/$*.def $< $@ $(PTXAS) $(PTXAS_FLAGS)

$(BUILD)/resources.tsv: $(CUBINS) scripts/resources.py $(BUILD)/kernels.mk
	@echo "  TSV     $@"
	@printf '%s\n' $(KERNELS) | python3 scripts/resources.py $(BUILD) > $@.part
	@mv $@.part $@

# ---- bundles -----------------------------------------------------------------

PTXAS_NOTE := $(PTXAS_VERSION) $(PTXAS_FLAGS)

# The list goes through a file: a command line has a limit.
define newline


endef
define pack
	@echo "  PACK    $@"
	@$(file >$@.list,$(subst $() ,$(newline),$(1)))
	@$(PACK) --output $@ --build $(BUILD) --list $@.list --ptxas '$(PTXAS_NOTE)'
endef

$(BUNDLE): $(KERNELS_SHIP:%=$(BUILD)/cubin/%.cubin) $(PACK) $(BUILD)/kernels.mk $(BUILD)/flags/ptxas
	$(call pack,$(KERNELS_SHIP))

# Built like what ships, and used by the tests alone.
$(TEST_BUNDLE): $(KERNELS_TEST:%=$(BUILD)/cubin/%.cubin) $(PACK) $(BUILD)/kernels.mk $(BUILD)/flags/ptxas
	$(call pack,$(KERNELS_TEST))
