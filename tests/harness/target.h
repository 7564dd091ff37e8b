/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests run on: the emulated driver, or (BW_TEST_DRIVER says so) a GPU, where some
 * tests cannot be done and some must not.
 */
#ifndef BW_HARNESS_TARGET_H
#define BW_HARNESS_TARGET_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* BW_TEST_DRIVER is set, and not to emu. */
bool bwt_on_gpu(void);

/* Lets mailboxes use multicast, whatever the environment says; on a GPU it does nothing:
 * there a program that makes multicast objects may put the GPUs out of service for others. */
void bwt_allow_multicast(void);

/* The emulated driver gets so many devices; a real one has what it has. */
void bwt_emulate_devices(uint32_t count);
/* The device that a rank is to use: one of its own if there are enough. */
int bwt_device_of(CUresult (*count_devices)(int *), uint32_t rank);

#endif
