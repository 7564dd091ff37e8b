# SPDX-License-Identifier: Apache-2.0
#
# The rule pairs of the emulated driver; tests/rules/README.md.  K: a glob on
# group/name, or group.  `make check` runs them too, as the suite test_rules.

.PHONY: rules
rules: $(BUILD)/tests/test_rules $(EMU) ## Break every rule of the emulated driver, and keep it
	@BUILD=$(BUILD) BW_PAIR="$(K)" BW_SEED="$(SEED)" scripts/rules.sh $(PTXAS)
