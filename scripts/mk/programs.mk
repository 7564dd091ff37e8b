# SPDX-License-Identifier: Apache-2.0
#
# Libraries, command line, emulated driver and test programs, twice: as users get
# them, and with the address and undefined-behaviour sanitizers under asan/.

LOADER_SRC := $(wildcard loader/*.c)
LIBRARY_SRC := $(filter-out loader/embedded.c,$(LOADER_SRC))
CLI_SRC    := $(wildcard loader/cli/*.c)
CONFORMANCE_MAINS := tests/conformance/main.c tests/conformance/form_table.c
SUPPORT_SRC := $(wildcard tests/ref/*.c tests/harness/*.c) tests/mutate/mutant.c \
  $(filter-out $(CONFORMANCE_MAINS),$(wildcard tests/conformance/*.c))
EMU_SRC    := $(wildcard tests/emulator/*/*.c)
SUITE_SRC  := $(wildcard tests/suites/test_*.c)
MUTATE_SRC := $(filter-out $(SUPPORT_SRC),$(wildcard tests/mutate/*.c))
PACK_SRC   := scripts/bw_pack.c
GPU_SRC    := $(wildcard tests/gpu/*.c)
# Programs as others would write them: their suites compile them in the others' way, here they
# are checked like all sources.  (Those of Open MPI, tests/examples/mailbox_mpi.c and tests/mpi, are
# not: it may be missing.)
CLIENT_SRC := $(wildcard tests/client/*.c) tests/examples/wo_a_engine.c
ALL_SRC    := $(LOADER_SRC) $(CLI_SRC) $(SUPPORT_SRC) $(CONFORMANCE_MAINS) $(EMU_SRC) $(SUITE_SRC) $(GPU_SRC) $(MUTATE_SRC) $(PACK_SRC) \
  $(CLIENT_SRC)
SUITES     := $(SUITE_SRC:tests/suites/%.c=%)
SUITES_EMU := $(filter test_emu_%,$(SUITES))
SUITES_OTHER := $(filter-out test_emu_%,$(SUITES))

SO_NAME := libbarewarp.so.$(call VERSION_PART,MAJOR)
SO_FULL := libbarewarp.so.$(VERSION)

# ---- flags -------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
# No contraction: a machine with fused multiply-add must give the same bits.
C_STANDARD := -std=gnu11 -ffp-contract=off
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1 -g

# What each part may include.  The emulator sees nothing of barewarp, and the
# references nothing of the emulator: each judges the other.
INC_loader   := -Iinclude -Iloader
INC_cli      := -Iinclude -Iloader -Itests
INC_support  := -Iinclude -Iloader -Itests
INC_emulator := -Itests/emulator
INC_suites   := -Iinclude -Iloader -Itests

FLAGS_loader   := $(INC_loader) -Wconversion -fPIC -fvisibility=hidden -DBW_BUILD_SHARED
FLAGS_cli      := $(INC_cli) -Wconversion -fPIC $(JANSSON_CFLAGS)
FLAGS_support  := $(INC_support) -fPIC
# The emulator's inner loops gain from -O3; a debugging user's -O0 stays.
FLAGS_emulator := $(INC_emulator) -fPIC -fno-semantic-interposition $(if $(filter -O2,$(CFLAGS)),-O3)
FLAGS_suites   := $(INC_suites) $(CHECK_CFLAGS)

# The part that source file $(1) belongs to.
part = $(strip $(if $(filter loader/cli/% scripts/%,$(1)),cli,$(if $(filter loader/%,$(1)),loader,\
  $(if $(filter tests/emulator/%,$(1)),emulator,$(if $(filter tests/suites/%,$(1)),suites,support)))))
# Everything between the compiler and the file's name.
compile_flags = $(C_STANDARD) $(WARNINGS) -isystem $(CUDA_INCLUDE) $(CFLAGS) $(FLAGS_$(call part,$(1))) $(CPPFLAGS)

ifneq ($(wildcard $(BUILD)/flags),)
$(call stamp,$(BUILD)/flags/cc,$(CC) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS) $(C_STANDARD) $(WARNINGS) $(CUDA_INCLUDE) \
  $(foreach p,loader cli support emulator suites,$(FLAGS_$(p))) $(SANITIZE))
$(call stamp,$(BUILD)/flags/sources,$(ALL_SRC))
endif

# ---- objects -----------------------------------------------------------------

# What the compiler said stays beside the object: lint takes it for an error, a user's
# build only shows it.
$(BUILD)/obj/%.o: %.c $(BUILD)/flags/cc
	@mkdir -p $(@D)
	@echo "  CC      $<"
	@$(CC) $(call compile_flags,$<) -MMD -MP -c -o $@ $< 2>$(@:.o=.warn) || \
	  { cat $(@:.o=.warn) >&2; exit 1; }
	@cat $(@:.o=.warn) >&2

$(BUILD)/asan/obj/%.o: %.c $(BUILD)/flags/cc
	@mkdir -p $(@D)
	@echo "  CC asan $<"
	@$(CC) $(call compile_flags,$<) $(SANITIZE) -MMD -MP -c -o $@ $<

# The library with the bundle as its data (loader/embedded.o is the same without).
$(BUILD)/obj/embedded_bundle.o: loader/embedded.c $(BUNDLE) $(BUILD)/flags/cc
	@mkdir -p $(@D)
	@echo "  CC      $< (bundle)"
	@$(CC) $(call compile_flags,$<) -DBW_EMBED_BUNDLE='"$(BUNDLE)"' -c -o $@ $<

# Kernels that are part of a source file.
$(BUILD)/obj/loader/cli/bench_kernels.o $(BUILD)/asan/obj/loader/cli/bench_kernels.o: tests/kernels/bench.ptx

DEPENDS := $(ALL_SRC:%.c=$(BUILD)/obj/%.d) $(ALL_SRC:%.c=$(BUILD)/asan/obj/%.d)
-include $(wildcard $(DEPENDS))

# ---- archives, libraries, programs -------------------------------------------

# $(1): folder of the variant; $(2): its linker flags.
define variant
$(1)/lib/libbarewarp.a: $$(LIBRARY_SRC:%.c=$(1)/obj/%.o) $$(BUILD)/obj/embedded_bundle.o
$(1)/tests/libsupport.a: $$(SUPPORT_SRC:%.c=$(1)/obj/%.o)
$(1)/emu/libemulator.a: $$(EMU_SRC:%.c=$(1)/obj/%.o)

$(1)/emu/libcuda.so.1: $(1)/emu/libemulator.a scripts/mk/libcuda.map
	@echo "  LD      $$@"
	@$$(CC) $(2) $$(LDFLAGS) -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic \
	  -Wl,--version-script=scripts/mk/libcuda.map -o $$@ \
	  -Wl,--whole-archive $$< -Wl,--no-whole-archive -lm -lpthread

$(1)/bin/barewarp: $$(CLI_SRC:%.c=$(1)/obj/%.o) $(1)/tests/libsupport.a $(1)/lib/libbarewarp.a
	@mkdir -p $$(@D)
	@echo "  LD      $$@"
	@$$(CC) $(2) $$(LDFLAGS) -o $$@ $$^ $$(JANSSON_LIBS) $$(ZSTD_LIBS) -lm -ldl -lpthread

# Suites of the emulator's own parts link to it; all others reach it as a driver.
$$(SUITES_EMU:%=$(1)/tests/%): $(1)/tests/%: $(1)/obj/tests/suites/%.o $(1)/tests/libsupport.a $(1)/lib/libbarewarp.a $(1)/emu/libemulator.a
	@echo "  LD      $$@"
	@$$(CC) $(2) $$(LDFLAGS) -o $$@ $$^ $$(CHECK_LIBS) $$(JANSSON_LIBS) $$(ZSTD_LIBS) -lm -ldl -lpthread

$$(SUITES_OTHER:%=$(1)/tests/%): $(1)/tests/%: $(1)/obj/tests/suites/%.o $(1)/tests/libsupport.a $(1)/lib/libbarewarp.a
	@echo "  LD      $$@"
	@$$(CC) $(2) $$(LDFLAGS) -o $$@ $$^ $$(CHECK_LIBS) $$(JANSSON_LIBS) $$(ZSTD_LIBS) -lm -ldl -lpthread
endef
$(eval $(call variant,$(BUILD),))
$(eval $(call variant,$(BUILD)/asan,$(SANITIZE)))

# Remade when a source file disappears, too.
%.a: $(BUILD)/flags/sources
	@mkdir -p $(@D)
	@echo "  AR      $@"
	@rm -f $@
	@$(AR) rcs $@ $(filter %.o,$^)

$(BUILD)/lib/$(SO_FULL): $(LIBRARY_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/embedded_bundle.o
	@mkdir -p $(@D)
	@echo "  LD      $@"
	@$(CC) $(LDFLAGS) -shared -Wl,-soname,$(SO_NAME) -Wl,-z,defs -Wl,--exclude-libs,ALL -o $@ $^ $(ZSTD_LIBS) -ldl -lpthread -lm
	@ln -sf $(SO_FULL) $(@D)/$(SO_NAME)
	@ln -sf $(SO_NAME) $(@D)/libbarewarp.so

$(PACK): $(BUILD)/obj/scripts/bw_pack.o $(BUILD)/obj/loader/cli/pack.o $(BUILD)/obj/loader/cli/options.o $(LOADER_SRC:%.c=$(BUILD)/obj/%.o)
	@mkdir -p $(@D)
	@echo "  LD      $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(ZSTD_LIBS) -lm -ldl -lpthread

LIBRARIES := $(BUILD)/lib/libbarewarp.a $(BUILD)/lib/$(SO_FULL)
CLI := $(BUILD)/bin/barewarp
EMU := $(BUILD)/emu/libcuda.so.1
SUITE_PROGRAMS := $(SUITES:%=$(BUILD)/tests/%)
# Suites that run the command line find it beside them.
$(filter %/test_cli %/test_cli_% %/test_records,$(SUITE_PROGRAMS)): | $(CLI)
