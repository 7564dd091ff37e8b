/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a device: a driver, a context, and the architecture of the bundle that runs
 * on it.
 */
#include "device.h"
#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- architectures --------------------------------------------------------------------
 *
 * Which compute capabilities a target's cubins run on.  "a" targets run on exactly one,
 * "f" targets on the members of a family (PTX ISA 9.0, section 11.1.2).  The first match
 * in this order that the bundle has wins. */
static const struct target {
  const char *arch;
  int major;
  int minors[2];
} targets[] = {
    {"sm_100f", 10, {0, 3}}, /* B200, GB200; B300, GB300 */
    {"sm_90a", 9, {0, 0}},   /* H100, H200, GH200 */
};

/* The bundle's own copy of the name, or NULL. */
static const char *bundle_arch(const bw_bundle *bundle, const char *arch) {
  for (size_t i = 0; i < bw_bundle_count(bundle); i++)
    if (strcmp(bwi_bundle_entry(bundle, i)->arch, arch) == 0)
      return bwi_bundle_entry(bundle, i)->arch;
  return NULL;
}

static const char *choose_arch(const bw_bundle *bundle, int major, int minor) {
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    const struct target *t = &targets[i];
    if (major != t->major || (minor != t->minors[0] && minor != t->minors[1]))
      continue;
    const char *arch = bundle_arch(bundle, t->arch);
    if (arch)
      return arch;
  }
  return NULL;
}

/* ---- the context ----------------------------------------------------------------------- */

bw_status bwi_enter(const bw_device *device, bwi_scope *scope) {
  const bwi_driver *cu = device->driver;
  CUcontext current = NULL;
  *scope = (bwi_scope){.device = device};
  bw_status status = BWI_CALL(cu, cuCtxGetCurrent, (&current));
  if (status != BW_OK || current == device->context)
    return status;
  status = BWI_CALL(cu, cuCtxPushCurrent, (device->context));
  scope->pushed = status == BW_OK;
  return status;
}

bw_status bwi_leave(const bwi_scope *scope, bw_status status) {
  if (!scope->pushed)
    return status;
  CUcontext ours;
  CUresult result = scope->device->driver->cuCtxPopCurrent(&ours);
  return status != BW_OK ? status
                         : bwi_driver_check(scope->device->driver, result, "cuCtxPopCurrent");
}

/* ---- opening ------------------------------------------------------------------------------ */

static bw_status use_current_context(bw_device *d) {
  const bwi_driver *cu = d->driver;
  bw_status status = BWI_CALL(cu, cuCtxGetCurrent, (&d->context));
  if (status != BW_OK)
    return status;
  if (!d->context)
    return bwi_fail(BW_ERROR_STATE,
                    "ordinal is BW_DEVICE_CURRENT, but no context is current to this thread");
  return BWI_CALL(cu, cuCtxGetDevice, (&d->device));
}

static bw_status use_primary_context(bw_device *d, int ordinal) {
  const bwi_driver *cu = d->driver;
  int count = 0;
  bw_status status = BWI_CALL(cu, cuDeviceGetCount, (&count));
  if (status != BW_OK)
    return status;
  if (count == 0)
    return bwi_fail(BW_ERROR_NO_DEVICE, "the driver '%s' has no device", d->choice);
  if (ordinal < 0 || ordinal >= count)
    return bwi_fail(BW_ERROR_NO_DEVICE, "ordinal is %d, must be 0..%d, or BW_DEVICE_CURRENT (%d)",
                    ordinal, count - 1, BW_DEVICE_CURRENT);
  status = BWI_CALL(cu, cuDeviceGet, (&d->device, ordinal));
  if (status != BW_OK)
    return status;
  status = BWI_CALL(cu, cuDevicePrimaryCtxRetain, (&d->context, d->device));
  d->primary = status == BW_OK;
  return status;
}

static bw_status read_attribute(const bw_device *d, int *value, CUdevice_attribute attribute) {
  return BWI_CALL(d->driver, cuDeviceGetAttribute, (value, attribute, d->device));
}

/* Everything of bw_device_info but the architecture. */
static bw_status read_info(bw_device *d) {
  bw_device_info *info = &d->info;
  info->ordinal = d->device; /* CUdevice is the ordinal */
  info->driver = d->choice;
  info->driver_version = d->driver->version;
  info->emulated = d->driver->emulated;
  bw_status status =
      BWI_CALL(d->driver, cuDeviceGetName, (info->name, (int)sizeof info->name, d->device));
  if (status == BW_OK)
    status = BWI_CALL(d->driver, cuDeviceTotalMem, (&info->memory, d->device));
  if (status == BW_OK)
    status = read_attribute(d, &info->compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  if (status == BW_OK)
    status = read_attribute(d, &info->compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (status == BW_OK)
    status = read_attribute(d, &info->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  (void)snprintf(d->title, sizeof d->title, "%s (compute capability %d.%d)", info->name,
                 info->compute_major, info->compute_minor);
  return status;
}

static bw_status find_arch(bw_device *d) {
  d->info.arch = choose_arch(d->bundle, d->info.compute_major, d->info.compute_minor);
  if (d->info.arch)
    return BW_OK;
  char names[256];
  bwi_bundle_targets(d->bundle, names, sizeof names);
  return bwi_fail(BW_ERROR_NO_DEVICE,
                  "the bundle has no code for device %d, %s; it has code for: %s", d->info.ordinal,
                  d->title, names);
}

static bw_status open_device(bw_device *d, const char *driver, int ordinal) {
  bw_status status = bwi_driver_open(&driver, &d->driver);
  if (status != BW_OK)
    return status;
  d->choice = strdup(driver);
  d->kernels = calloc(bw_bundle_count(d->bundle) + 1, sizeof *d->kernels);
  if (!d->choice || !d->kernels)
    return bwi_fail_memory("a device");
  status = ordinal == BW_DEVICE_CURRENT ? use_current_context(d) : use_primary_context(d, ordinal);
  if (status == BW_OK)
    status = read_info(d);
  if (status == BW_OK)
    status = find_arch(d);
  return status;
}

bw_status bw_device_open(bw_bundle *bundle, const char *driver, int ordinal, bw_device **out) {
  if (!bundle)
    return bwi_fail_null("bundle");
  if (!out)
    return bwi_fail_null("out");
  bw_device *d = calloc(1, sizeof *d);
  if (!d)
    return bwi_fail_memory("a device");
  if (pthread_mutex_init(&d->lock, NULL) != 0) {
    free(d);
    return bwi_fail_memory("a device's lock");
  }
  atomic_init(&d->references, 1);
  d->bundle = bwi_bundle_retain(bundle);
  const char *debug = getenv("BAREWARP_DEBUG");
  d->debug = debug && strcmp(debug, "1") == 0;
  bw_status status = open_device(d, driver, ordinal);
  if (status == BW_OK)
    *out = d;
  else
    bw_device_close(d); /* leaves the message as it is */
  return status;
}

bw_device *bwi_device_retain(bw_device *device) {
  atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
  return device;
}

void bw_device_close(bw_device *device) {
  if (!device || atomic_fetch_sub_explicit(&device->references, 1, memory_order_acq_rel) != 1)
    return;
  if (device->context)
    bwi_kernels_unload(device);
  if (device->primary)
    (void)device->driver->cuDevicePrimaryCtxRelease(device->device);
  (void)pthread_mutex_destroy(&device->lock);
  bw_bundle_close(device->bundle);
  free(device->kernels);
  free(device->choice);
  free(device);
}

bw_status bw_device_query(const bw_device *device, bw_device_info *out) {
  if (!device)
    return bwi_fail_null("device");
  if (!out)
    return bwi_fail_null("out");
  *out = device->info;
  return BW_OK;
}
