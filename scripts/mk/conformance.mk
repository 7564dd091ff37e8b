# SPDX-License-Identifier: Apache-2.0
#
# The conformance kernels: running them, recording what a GPU answers, making them anew.

CONFORMANCE := $(BUILD)/tests/conformance
FORM_TABLE  := $(BUILD)/tests/form_table
CONFORMANCE_PTX := $(wildcard tests/conformance/ptx/*.ptx)
CONFORMANCE_CUDA := $(wildcard tests/conformance/cuda/sm_*/*.ptx)
CONFORMANCE_RECORD := tests/conformance/recorded/h200.txt
CONFORMANCE_RUN = $(CONFORMANCE) --kernels tests/conformance/ptx --cuda tests/conformance/cuda

# Needs nothing but libc and a driver, so that it can be carried to a machine with a GPU.
$(CONFORMANCE): $(BUILD)/obj/tests/conformance/main.o $(BUILD)/tests/libsupport.a
	@echo "  LD      $@"
	@$(CC) $(LDFLAGS) -o $@ $^ -lm -ldl -lpthread

$(FORM_TABLE): $(BUILD)/obj/tests/conformance/form_table.o $(BUILD)/emu/libemulator.a
	@echo "  LD      $@"
	@$(CC) $(LDFLAGS) -o $@ $^ -lm -lpthread

# test_conformance runs the program that lies beside it.
$(BUILD)/tests/test_conformance: | $(CONFORMANCE)

.PHONY: conformance
conformance: $(CONFORMANCE) $(EMU) ## Every conformance kernel on the emulated driver, against an H200's answers
	@$(CONFORMANCE_RUN) --full --against $(CONFORMANCE_RECORD) $(K)

# What travels to the GPU: every kernel that sm_90a can run, assembled.
CONFORMANCE_CUBINS := $(patsubst tests/conformance/ptx/%.ptx,$(BUILD)/conformance/cubin/%.cubin,$(CONFORMANCE_PTX)) \
  $(patsubst tests/conformance/cuda/sm_90a/%.ptx,$(BUILD)/conformance/cubin/%.cubin,$(wildcard tests/conformance/cuda/sm_90a/*.ptx))

$(BUILD)/conformance/cubin/%.cubin: tests/conformance/ptx/%.ptx
	@scripts/conformance/assemble.sh $< $@
$(BUILD)/conformance/cubin/%.cubin: tests/conformance/cuda/sm_90a/%.ptx
	@scripts/conformance/assemble.sh $< $@

.PHONY: conformance-cubins
conformance-cubins: $(CONFORMANCE_CUBINS) ## Assemble the conformance kernels for a GPU

# Into the folder that travels to a machine with a GPU: gpu.sh conformance runs it there.
.PHONY: conformance-kit
conformance-kit: $(CONFORMANCE) conformance-cubins
	@mkdir -p $(KIT)/conformance
	@cp -r tests/conformance/ptx tests/conformance/cuda tests/conformance/recorded \
	  $(BUILD)/conformance/cubin $(CONFORMANCE) scripts/conformance/run.sh $(KIT)/conformance/
gpu-kit: conformance-kit

.PHONY: record-conformance
record-conformance: $(CONFORMANCE) conformance-cubins ## Record what this machine's GPU answers the conformance kernels
	@scripts/conformance/record.sh $(CONFORMANCE_RUN) --cubins $(BUILD)/conformance/cubin

.PHONY: regen-ptx
regen-ptx: ## Make the conformance kernels anew: from their tables, and by nvcc 13 from CUDA C++
	scripts/conformance/generate.py tests/conformance/ptx
	scripts/conformance/regen-ptx.sh

# The committed kernels and tables are those that their sources make.
.PHONY: lint-conformance
lint-conformance: $(LINT)/conformance.ok
$(LINT)/conformance.ok: $(wildcard scripts/conformance/*) $(CONFORMANCE_PTX) $(CONFORMANCE_CUDA) $(FORM_TABLE) \
  $(CONFORMANCE_RECORD) tests/emulator/README.md tests/conformance/FORMS.md
	@mkdir -p $(@D)
	@scripts/conformance/check-current.sh $(FORM_TABLE) $(@D)/conformance
	@touch $@

.PHONY: conformance-tables
conformance-tables: $(FORM_TABLE) ## Write the tables of instruction forms anew
	@scripts/conformance/tables.sh $(FORM_TABLE) tests/emulator/README.md tests/conformance/FORMS.md
