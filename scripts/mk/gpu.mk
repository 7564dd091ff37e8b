# SPDX-License-Identifier: Apache-2.0
#
# The GPU kit: one folder to copy to a machine with GPUs, and the targets that run it here.
# It needs libc and the driver there; compute-sanitizer and PyTorch for the parts that use
# them.  Everything else is linked in.

GPU_PROGRAMS := $(GPU_SRC:tests/gpu/%.c=$(BUILD)/gpu/%)
KIT := $(BUILD)/gpu-kit
KIT_LIMIT := 40 # MiB

# Suites that make sense on a GPU.  The others test the emulated driver, or need it (edited
# PTX, a driver that fails when told to), or run nothing on a device.
KIT_SUITES := wo_a wo_a_apart wo_a_codes wo_a_keys wo_a_streams up_proj loader_errors cli \
  mailbox_contract mailbox_steps mailbox_protocol mailbox_processes
KIT_LEFT_OUT := $(filter-out $(KIT_SUITES),$(SUITES:test_%=%))

KIT_PROGRAMS := $(KIT)/bin/suites $(KIT)/bin/barewarp $(GPU_PROGRAMS:$(BUILD)/gpu/%=$(KIT)/gpu/%)
KIT_STATIC := -Wl,-Bstatic $(filter-out -lm -lrt -pthread,$(CHECK_LIBS)) $(JANSSON_LIBS) $(ZSTD_LIBS) -Wl,-Bdynamic

GPU_OBJECTS = $(BUILD)/obj/loader/cli/options.o $(BUILD)/tests/libsupport.a $(BUILD)/lib/libbarewarp.a

$(BUILD)/gpu/%: $(BUILD)/obj/tests/gpu/%.o $(GPU_OBJECTS)
	@mkdir -p $(@D)
	@echo "  LD      $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(JANSSON_LIBS) $(ZSTD_LIBS) -lm -ldl -lpthread

# All suites in one program, each with its main under another name: the bundle that is linked
# in is most of a suite's size.
KIT_SUITE_OBJECTS := $(KIT_SUITES:%=$(BUILD)/kit-suites/%.o)
$(BUILD)/kit-suites/%.o: $(BUILD)/obj/tests/suites/test_%.o
	@mkdir -p $(@D)
	@objcopy --redefine-sym main=bwt_suite_$* $< $@
$(BUILD)/kit-suites/main.c: scripts/mk/gpu.mk
	@mkdir -p $(@D)
	@{ for s in $(KIT_SUITES); do echo "int bwt_suite_$$s(void);"; done; \
	  echo '#include <stdio.h>'; echo '#include <string.h>'; echo 'int main(int argc, char **argv) {'; \
	  for s in $(KIT_SUITES); do \
	    echo "  if (argc > 1 && strcmp(argv[1], \"$$s\") == 0) return bwt_suite_$$s();"; done; \
	  echo '  fputs("usage: suites NAME\n", stderr); return 2; }'; } > $@
$(BUILD)/kit-suites/main.o: $(BUILD)/kit-suites/main.c
	@$(CC) $(CFLAGS) -c -o $@ $<

define kit_link
	@mkdir -p $(@D)
	@echo "  LD      $@"
	@$(CC) $(LDFLAGS) -s -o $@ $^ $(KIT_STATIC) -lm -ldl -lpthread -lrt
endef
$(KIT)/bin/suites: $(BUILD)/kit-suites/main.o $(KIT_SUITE_OBJECTS) $(BUILD)/tests/libsupport.a $(BUILD)/lib/libbarewarp.a
	$(kit_link)
$(KIT)/gpu/%: $(BUILD)/obj/tests/gpu/%.o $(GPU_OBJECTS)
	$(kit_link)
$(KIT)/bin/barewarp: $(CLI_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/tests/libsupport.a $(BUILD)/lib/libbarewarp.a
	$(kit_link)

# Everything that is copied as it is, folder by folder.
KIT_FILES := scripts/gpu.sh scripts/run-suites.sh ptx/wo_a/table.tsv \
  $(wildcard tests/kernels/*.ptx scripts/gpu/*.py tests/gpu/*.py tests/records/*)

# The emulator's instruction tests, which were recorded on a GPU.
KIT_CONFORMANCE := $(if $(wildcard tests/conformance/main.c),$(BUILD)/tests/conformance)

.PHONY: gpu-kit
gpu-kit: $(KIT_PROGRAMS) $(KIT_CONFORMANCE) $(BUNDLE) $(TEST_BUNDLE) ## One folder with all that a machine with GPUs needs to test and measure
	@for f in $(KIT_FILES); do mkdir -p $(KIT)/$$(dirname $$f) && cp $$f $(KIT)/$$f; done
	@cp scripts/gpu.sh $(KIT)/gpu.sh
	@cp $(BUNDLE) $(TEST_BUNDLE) $(KIT)/
	@echo "$(KIT_LEFT_OUT)" > $(KIT)/left-out
	@rm -f $(KIT)/tests/test_*
	@for s in $(KIT_SUITES); do printf '#!/bin/sh\nexec "$${0%%/*}/../bin/suites" %s\n' $$s > $(KIT)/tests/test_$$s; \
	  chmod +x $(KIT)/tests/test_$$s; done
	$(if $(KIT_CONFORMANCE),@mkdir -p $(KIT)/conformance/recorded && cp $(KIT_CONFORMANCE) $(KIT)/conformance/ && \
	  cp -r tests/conformance/ptx tests/conformance/cuda $(KIT)/conformance/ && cp tests/conformance/recorded/*.txt $(KIT)/conformance/recorded/)
	@size=$$(du -sm $(KIT) | cut -f 1); echo "$(KIT): $$size MiB"; [ $$size -lt $(KIT_LIMIT) ]

.PHONY: check-gpu sanitize bench record-gpu
check-gpu: gpu-kit ## The suites on the GPUs of this machine
	@$(KIT)/gpu.sh check
sanitize: gpu-kit ## compute-sanitizer over the kernels, on a GPU
	@$(KIT)/gpu.sh sanitize
bench: gpu-kit ## Measure the kernels and what else does their work, on a GPU
	@$(KIT)/gpu.sh bench
record-gpu: gpu-kit ## Record what the kernels give on this GPU for fixed operands
	@$(KIT)/gpu.sh record

# The suite of the GPU programs runs them.
$(BUILD)/tests/test_gpu_programs: | $(GPU_PROGRAMS)
