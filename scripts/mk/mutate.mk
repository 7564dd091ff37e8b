# SPDX-License-Identifier: Apache-2.0
#
# Mutation testing of the shipped kernels (tests/mutate).

MUTATE := $(BUILD)/tests/mutate

$(MUTATE): $(MUTATE_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/tests/libsupport.a $(BUILD)/lib/libbarewarp.a
	@echo "  LD      $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(ZSTD_LIBS) -lm -ldl -lpthread

.PHONY: mutate
mutate: $(MUTATE) $(EMU) $(BUNDLE) $(TEST_BUNDLE) ## Break the kernels one instruction at a time: each must be caught (SAMPLE=N: so many)
	@BUILD=$(BUILD) BAREWARP_EMU=$(abspath $(EMU)) $(MUTATE) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(K),--match '$(K)') $(if $(I),--instruction '$(I)') $(if $(KIND),--kinds '$(KIND)')

# A sample of it runs in the suite.
$(BUILD)/tests/test_mutate: | $(MUTATE)
