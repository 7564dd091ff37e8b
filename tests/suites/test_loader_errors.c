/* SPDX-License-Identifier: Apache-2.0
 *
 * Every way in which opening a device, making a plan and launching can fail: by status
 * and by the words of the message, and that nothing was launched or changed.
 */
#include "harness/buffer.h"
#include "harness/rebundle.h"
#include "harness/suite.h"
#include "harness/verify_wo_a.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_fails(bw_status got, bw_status want, const char *words) {
  ck_assert_msg(got == want, "%s (%s), not %s", bw_status_text(got),
                got == BW_OK ? "" : bw_last_error(), bw_status_text(want));
  ck_assert_msg(strstr(bw_last_error(), words) != NULL, "\"%s\" does not say \"%s\"",
                bw_last_error(), words);
  ck_assert_int_eq(bw_last_curesult() != 0, want == BW_ERROR_DRIVER);
}
#define INVALID BW_ERROR_INVALID_ARGUMENT

/* ---- what the tests share ---------------------------------------------------------- */

static bw_bundle *bundle;
static struct bwt_session session;

static void open_session(void) {
  struct bwt_text why = {0};
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
  ck_assert_msg(bwt_session_open(&session, NULL, bundle, &why), "%s", why.chars);
}

static void close_session(void) {
  bwt_session_close(&session);
  bw_bundle_close(bundle);
}

static const char *arch_in_use(void) {
  bw_device_info info;
  ck_assert_int_eq(bw_device_query(session.device, &info), BW_OK);
  return info.arch;
}

/* A run of one token, H = 1, R = 128, never launched unless a test does. */
static struct bwt_wo_a_run run;
static struct bwt_wo_a_result result;

static void open_run(void) {
  open_session();
  struct bwt_wo_a_case c = bwt_wo_a_case_for(1, 1, 1, 128, 1);
  c.max_tokens = 4;
  bwt_wo_a_result_start(&result, &session, &c);
  ck_assert_msg(bwt_wo_a_run_open(&run, &session, &c, &result), "%s", result.why.chars);
}

static void close_run(void) {
  bwt_wo_a_run_close(&run);
  close_session();
}

/* Nothing was written: outputs still hold what they were filled with. */
static void assert_untouched(void) {
  struct bwt_text why = {0};
  ck_assert_int_eq(session.driver.CtxSynchronize(), CUDA_SUCCESS);
  ck_assert_msg(bwt_buffer_check_unchanged(&run.q, &why) == 0, "%s", why.chars);
  ck_assert_msg(bwt_buffer_check_unchanged(&run.qs, &why) == 0, "%s", why.chars);
}

static bw_wo_a_config good_config(void) {
  return (bw_wo_a_config){
      .shape = {1, 1, 128, 1}, .weight = run.weight.data, .weight_scale = run.weight_scale.data};
}

/* ---- devices ------------------------------------------------------------------------- */

START_TEST(device_open) {
  open_session();
  const char *path = session.driver.path;
  bw_device *device = NULL;
  assert_fails(bw_device_open(NULL, path, 0, &device), INVALID, "bundle");
  assert_fails(bw_device_open(bundle, path, 0, NULL), INVALID, "out");
  assert_fails(bw_device_open(bundle, path, 99, &device), BW_ERROR_NO_DEVICE, "ordinal is 99");
  assert_fails(bw_device_open(bundle, path, -2, &device), BW_ERROR_NO_DEVICE, "ordinal is -2");
  assert_fails(bw_device_open(bundle, "/nowhere/libcuda.so", 0, &device), BW_ERROR_NO_DRIVER,
               "/nowhere/libcuda.so");
  ck_assert_int_eq(session.driver.CtxSetCurrent(NULL), CUDA_SUCCESS);
  assert_fails(bw_device_open(bundle, path, BW_DEVICE_CURRENT, &device), BW_ERROR_STATE,
               "no context is current");
  ck_assert_ptr_null(device);
  ck_assert_int_eq(session.driver.CtxSetCurrent(session.context), CUDA_SUCCESS);
  ck_assert_msg(bw_device_open(bundle, path, BW_DEVICE_CURRENT, &device) == BW_OK, "%s",
                bw_last_error());
  bw_device_info info;
  ck_assert_int_eq(bw_device_query(device, &info), BW_OK);
  ck_assert_int_eq(info.ordinal, 0);
  ck_assert_int_eq(info.emulated, session.driver.emulated);
  assert_fails(bw_device_query(NULL, &info), INVALID, "device");
  assert_fails(bw_device_query(device, NULL), INVALID, "out");
  bw_device_close(device);
  bw_device_close(NULL);
  close_session();
}
END_TEST

/* A library that is no driver. */
START_TEST(device_open_with_other_library) {
  open_session();
  bw_device *device;
  ck_assert_int_eq(bw_device_open(bundle, "libm.so.6", 0, &device), BW_ERROR_NO_DRIVER);
  ck_assert_str_ne(bw_last_error(), "");
  close_session();
}
END_TEST

static void other_arch(bwi_entry *e, bwi_attribute *attributes, void *arg) {
  (void)attributes;
  (void)arg;
  e->info.arch = "sm_120f";
}

START_TEST(device_without_code) {
  open_session();
  struct bwt_rebundled r;
  struct bwt_text why = {0};
  bw_device *device;
  ck_assert_msg(bwt_rebundle(bundle, "wo_a", arch_in_use(), "t1x1f_h1", other_arch, NULL, &r, &why),
                "%s", why.chars);
  bw_status status = bw_device_open(r.bundle, session.driver.path, 0, &device);
  assert_fails(status, BW_ERROR_NO_DEVICE, "sm_120f");
  bw_device_info info;
  ck_assert_int_eq(bw_device_query(session.device, &info), BW_OK);
  char capability[32];
  snprintf(capability, sizeof capability, "%d.%d", info.compute_major, info.compute_minor);
  ck_assert_msg(strstr(bw_last_error(), capability) != NULL, "%s", bw_last_error());
  bwt_rebundle_close(&r);
  close_session();
}
END_TEST

/* ---- shapes: the same checks in the query and in the plan -------------------------------- */

static const struct bad_shape {
  bw_wo_a_shape shape;
  bw_status status;
  const char *words;
} bad_shapes[] = {
    {{0, 1, 128, 1}, INVALID, "shape.groups is 0"},
    {{1, 0, 128, 1}, INVALID, "shape.heads_per_group is 0"},
    {{1, 9, 128, 1}, INVALID, "shape.heads_per_group is 9"},
    {{1, 1, 0, 1}, INVALID, "shape.lora_rank is 0"},
    {{1, 1, 64, 1}, INVALID, "shape.lora_rank is 64"},
    {{1, 1, 200, 1}, INVALID, "shape.lora_rank is 200, must be a multiple of 128"},
    {{1, 1, 128, 0}, INVALID, "shape.max_tokens is 0"},
    {{1, 1, 128, 129}, INVALID, "shape.max_tokens is 129, must be 1..128"},
    {{0xffffffff, 1, 128, 1}, INVALID, "groups"},
    {{1u << 16, 1, 1u << 16, 1}, INVALID, "shape.groups * shape.lora_rank"},
    {{1, 1, 0x80000000, 1}, INVALID, "lora_rank"},
    {{1, 3, 128, 1}, BW_ERROR_UNSUPPORTED, "shape.heads_per_group is 3"},
    {{1, 7, 128, 1}, BW_ERROR_UNSUPPORTED, "1, 2, 4, 8"},
};

START_TEST(shapes) {
  const struct bad_shape *bad = &bad_shapes[_i];
  open_run();
  bw_wo_a_plan *plan = NULL;
  bw_wo_a_config config = good_config();
  config.shape = bad->shape;
  assert_fails(bw_wo_a_supported(session.device, &bad->shape), bad->status, bad->words);
  assert_fails(bw_wo_a_plan_create(session.device, &config, &plan), bad->status, bad->words);
  ck_assert_ptr_null(plan);
  close_run();
}
END_TEST

START_TEST(supported) {
  open_session();
  bw_wo_a_shape shape = {2, 8, 1024, 128};
  ck_assert_int_eq(bw_wo_a_supported(session.device, &shape), BW_OK);
  assert_fails(bw_wo_a_supported(NULL, &shape), INVALID, "device");
  assert_fails(bw_wo_a_supported(session.device, NULL), INVALID, "shape");
  close_session();
}
END_TEST

/* ---- plans ------------------------------------------------------------------------------- */

START_TEST(plan_arguments) {
  open_run();
  bw_device *d = session.device;
  bw_wo_a_plan *plan = NULL;
  bw_wo_a_config c = good_config();
  assert_fails(bw_wo_a_plan_create(NULL, &c, &plan), INVALID, "device");
  assert_fails(bw_wo_a_plan_create(d, NULL, &plan), INVALID, "config");
  assert_fails(bw_wo_a_plan_create(d, &c, NULL), INVALID, "out");
  c.weight = 0;
  assert_fails(bw_wo_a_plan_create(d, &c, &plan), INVALID, "weight is NULL");
  c.weight = run.weight.data + 8;
  assert_fails(bw_wo_a_plan_create(d, &c, &plan), INVALID, "must be 16-byte aligned");
  c = good_config();
  c.weight_scale = 0;
  assert_fails(bw_wo_a_plan_create(d, &c, &plan), INVALID, "weight_scale is NULL");
  c.weight_scale = run.weight_scale.data + 4;
  assert_fails(bw_wo_a_plan_create(d, &c, &plan), INVALID, "weight_scale");
  c = good_config();
  c.flags = 2;
  assert_fails(bw_wo_a_plan_create(d, &c, &plan), INVALID, "config.flags is 0x2");
  c.flags = 0x80000001;
  assert_fails(bw_wo_a_plan_create(d, &c, &plan), INVALID, "config.flags is 0x80000001");
  ck_assert_ptr_null(plan);
  close_run();
}
END_TEST

/* Weights that are not the device's, or too short. */
START_TEST(plan_operands) {
  open_run();
  bw_device *d = session.device;
  bw_wo_a_plan *plan = NULL;
  bw_wo_a_config c = good_config();
  CUdeviceptr scrap;
  ck_assert_int_eq(session.driver.MemAlloc(&scrap, 128 * 512 - 16), CUDA_SUCCESS);
  c.weight = scrap;
  assert_fails(bw_wo_a_plan_create(d, &c, &plan), INVALID, "weight needs 65536 bytes");
  c = good_config();
  c.weight_scale = scrap + 128 * 512 - 2048;
  assert_fails(bw_wo_a_plan_create(d, &c, &plan), INVALID, "weight_scale needs 2048 bytes");
  ck_assert_int_eq(session.driver.MemFree(scrap), CUDA_SUCCESS);
  c = good_config();
  c.weight = scrap;
  assert_fails(bw_wo_a_plan_create(d, &c, &plan), INVALID, "weight is 0x");
  static _Alignas(16) char host[16];
  c.weight = (bw_devptr)(uintptr_t)host;
  assert_fails(bw_wo_a_plan_create(d, &c, &plan), INVALID, "weight is 0x");
  ck_assert_ptr_null(plan);
  close_run();
}
END_TEST

START_TEST(plan_update) {
  open_run();
  bw_devptr w = run.weight.data, s = run.weight_scale.data;
  assert_fails(bw_wo_a_plan_update(NULL, w, s), INVALID, "plan");
  assert_fails(bw_wo_a_plan_update(run.plan, 0, s), INVALID, "weight is NULL");
  assert_fails(bw_wo_a_plan_update(run.plan, w + 1, s), INVALID, "weight");
  assert_fails(bw_wo_a_plan_update(run.plan, w, 0), INVALID, "weight_scale is NULL");
  assert_fails(bw_wo_a_plan_update(run.plan, w, s + 8), INVALID, "weight_scale");
  assert_fails(bw_wo_a_plan_update(run.plan, 16, s), INVALID, "weight is 0x10");
  /* The plan is as it was. */
  ck_assert_msg(bw_wo_a_launch(run.plan, &run.args, NULL) == BW_OK, "%s", bw_last_error());
  ck_assert_int_eq(session.driver.CtxSynchronize(), CUDA_SUCCESS);
  bwt_wo_a_run_check(&run, false, &result);
  ck_assert_msg(bwt_wo_a_result_finish(&result, &session), "%s", result.why.chars);
  bw_wo_a_plan_destroy(NULL);
  close_run();
}
END_TEST

/* ---- index entries that a launcher must not trust ------------------------------------------ */

static void set_attribute(bwi_entry *e, bwi_attribute *attributes, const char *name,
                          uint32_t value) {
  for (size_t i = 0; i < e->attribute_count; i++)
    if (strcmp(attributes[i].name, name) == 0) {
      attributes[i].value = value;
      return;
    }
  ck_abort_msg("the entry has no attribute %s", name);
}

static void narrow_tile(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)arg;
  set_attribute(e, a, "tile_n", 7);
}
static void wide_box(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)arg;
  set_attribute(e, a, "box_k", 256);
}
static void no_scales(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)arg;
  set_attribute(e, a, "scale_box", 0);
}
static void no_tiles(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)arg;
  set_attribute(e, a, "tiles", 0);
}
/* One that this kernel does not have, in place of one that the loader does not read. */
static void many_teams(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)arg;
  set_attribute(e, a, "rope_dim", 3);
  for (size_t i = 0; i < e->attribute_count; i++)
    if (strcmp(a[i].name, "rope_dim") == 0)
      a[i].name = "teams";
}
static void no_attributes(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)a;
  (void)arg;
  e->attribute_count = 0;
}
static void few_parameters(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)a;
  (void)arg;
  e->parameter_bytes = 8;
}
static void other_cluster(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)a;
  (void)arg;
  e->info.cluster = 2;
}
static void many_threads(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)a;
  (void)arg;
  e->info.threads = 4096;
}
static void much_shared(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)a;
  (void)arg;
  e->info.shared_dynamic = 1u << 30;
}
static void bad_ptx(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)a;
  (void)arg;
  e->ptx = "this is no PTX\n";
  e->ptx_size = strlen(e->ptx);
  e->cubin = e->ptx; /* for real drivers */
  e->cubin_size = e->ptx_size;
}
static void other_symbol(bwi_entry *e, bwi_attribute *a, void *arg) {
  (void)a;
  (void)arg;
  e->info.symbol = "bw_no_such_entry";
}

static const struct bad_entry {
  bwt_edit edit;
  bw_status status;
  const char *words;
} bad_entries[] = {
    {narrow_tile, BW_ERROR_BUNDLE, "attribute tile_n is 7"},
    {wide_box, BW_ERROR_BUNDLE, "attribute box_k is 256"},
    {no_scales, BW_ERROR_BUNDLE, "attribute scale_box is 0"},
    {no_tiles, BW_ERROR_BUNDLE, "attribute grid_y is 0"},
    {many_teams, BW_ERROR_BUNDLE, "attribute teams is 3, must be 1 or 2"},
    {no_attributes, BW_ERROR_BUNDLE, "tile_n"},
    {few_parameters, BW_ERROR_BUNDLE, "takes 8 bytes of parameters"},
    {other_cluster, BW_ERROR_BUNDLE, "clusters of 2"},
    {many_threads, BW_ERROR_UNSUPPORTED, "4096"},
    {much_shared, BW_ERROR_UNSUPPORTED, "shared memory"},
    {bad_ptx, BW_ERROR_DRIVER, "t1x1f_h1"},
    {other_symbol, BW_ERROR_DRIVER, "cuLibraryGetKernel"},
};

START_TEST(entries) {
  const struct bad_entry *bad = &bad_entries[_i];
  open_run();
  struct bwt_rebundled r;
  struct bwt_text why = {0};
  ck_assert_msg(bwt_rebundle(bundle, "wo_a", arch_in_use(), "t1x1f_h1", bad->edit, NULL, &r, &why),
                "%s", why.chars);
  bw_device *device;
  ck_assert_msg(bw_device_open(r.bundle, session.driver.path, 0, &device) == BW_OK, "%s",
                bw_last_error());
  bw_wo_a_config config = good_config();
  bw_wo_a_plan *plan = NULL;
  assert_fails(bw_wo_a_plan_create(device, &config, &plan), bad->status, bad->words);
  ck_assert_ptr_null(plan);
  bw_device_close(device);
  bwt_rebundle_close(&r);
  close_run();
}
END_TEST

/* A plan holds maps for two kinds of boxes; here its kernels want three. */
static bool three_kinds(bwi_entry *e, void *arg) {
  static bwi_attribute edited[2][64];
  (void)arg;
  int kind = strcmp(e->info.key, "t1x1f_h1") == 0   ? 0
             : strcmp(e->info.key, "t2x1f_h1") == 0 ? 1
                                                    : 2;
  if (strcmp(e->info.family, "wo_a") != 0)
    return false;
  if (kind == 2)
    return true;
  ck_assert_uint_le(e->attribute_count, 64);
  memcpy(edited[kind], e->attributes, e->attribute_count * sizeof *e->attributes);
  set_attribute(e, edited[kind], "tile_n", kind == 0 ? 16 : 32);
  e->attributes = edited[kind];
  return true;
}

START_TEST(boxes) {
  open_run();
  struct bwt_rebundled r;
  struct bwt_text why = {0};
  ck_assert_msg(bwt_rebundle_all(bundle, arch_in_use(), three_kinds, NULL, &r, &why), "%s",
                why.chars);
  bw_device *device;
  ck_assert_msg(bw_device_open(r.bundle, session.driver.path, 0, &device) == BW_OK, "%s",
                bw_last_error());
  bw_wo_a_config config = good_config();
  bw_wo_a_plan *plan = NULL;
  config.shape.max_tokens = 2;
  ck_assert_msg(bw_wo_a_plan_create(device, &config, &plan) == BW_OK, "%s", bw_last_error());
  bw_wo_a_plan_destroy(plan);
  plan = NULL;
  config.shape.max_tokens = 3;
  assert_fails(bw_wo_a_plan_create(device, &config, &plan), BW_ERROR_BUNDLE,
               "wo_a t3x1f_h1 wants boxes unlike those of the plan's other kernels");
  ck_assert_ptr_null(plan);
  bw_device_close(device);
  bwt_rebundle_close(&r);
  close_run();
}
END_TEST

/* ---- launches ---------------------------------------------------------------------------- */

static void assert_refused(const bw_wo_a_args *args, const char *words) {
  assert_fails(bw_wo_a_launch(run.plan, args, NULL), INVALID, words);
}

START_TEST(launch_arguments) {
  open_run();
  bw_wo_a_args good = run.args, a;
  assert_fails(bw_wo_a_launch(NULL, &good, NULL), INVALID, "plan");
  assert_fails(bw_wo_a_launch(run.plan, NULL, NULL), INVALID, "args");

  a = good, a.tokens = 5;
  assert_refused(&a, "args.tokens is 5, must be 0..4");
  a = good, a.tokens = 0xffffffff;
  assert_refused(&a, "args.tokens");
  a = good, a.flags = 1u << 4;
  assert_refused(&a, "args.flags is 0x10");
  a = good, a.flags = BW_LAUNCH_TRIGGER_ENTRY | BW_LAUNCH_TRIGGER_LATE;
  assert_refused(&a, "at most one");
  a = good, a.flags = BW_LAUNCH_NO_PDL | BW_LAUNCH_TRIGGER_ENTRY | BW_LAUNCH_TRIGGER_AFTER_WAIT;
  assert_refused(&a, "at most one");

  a = good, a.x = 0;
  assert_refused(&a, "args.x is NULL");
  a = good, a.x += 8;
  assert_refused(&a, "args.x is 0x");
  a = good, a.x_token_stride = 504;
  assert_refused(&a, "args.x_token_stride is 504, must be 512..");
  a = good, a.x_token_stride = 0;
  assert_refused(&a, "args.x_token_stride is 0");
  a = good, a.x_token_stride = 516;
  assert_refused(&a, "args.x_token_stride is 516, must be a multiple of 8");
  a = good, a.x_token_stride = UINT64_MAX - 7;
  assert_refused(&a, "args.x_token_stride");
  a = good, a.positions = 0;
  assert_refused(&a, "args.positions is NULL");
  a = good, a.positions += 4;
  assert_refused(&a, "must be 8-byte aligned");
  a = good, a.rope = 0;
  assert_refused(&a, "args.rope is NULL");
  a = good, a.rope += 8;
  assert_refused(&a, "args.rope is 0x");
  a = good, a.q = 0;
  assert_refused(&a, "args.q is NULL");
  a = good, a.q += 1;
  assert_refused(&a, "args.q is 0x");
  a = good, a.qs = 0;
  assert_refused(&a, "args.qs is NULL");
  a = good, a.qs += 4;
  assert_refused(&a, "args.qs is 0x");
  assert_untouched();
  close_run();
}
END_TEST

START_TEST(launch_of_no_tokens) {
  open_run();
  bw_wo_a_args none = {.tokens = 0};
  ck_assert_msg(bw_wo_a_launch(run.plan, &none, NULL) == BW_OK, "%s", bw_last_error());
  bw_wo_a_args a = run.args;
  a.tokens = 0;
  ck_assert_msg(bw_wo_a_launch(run.plan, &a, NULL) == BW_OK, "%s", bw_last_error());
  a.flags = 1u << 7;
  assert_refused(&a, "args.flags");
  assert_untouched();
  close_run();
}
END_TEST

/* BAREWARP_DEBUG=1: whose memory, and how much of it. */
START_TEST(launch_debug) {
  setenv("BAREWARP_DEBUG", "1", 1);
  open_run();
  bw_wo_a_args good = run.args, a;
  static _Alignas(16) char host[16];
  bw_devptr elsewhere = (bw_devptr)(uintptr_t)host;
  a = good, a.x = elsewhere;
  assert_refused(&a, "args.x is 0x");
  a = good, a.positions = elsewhere;
  assert_refused(&a, "args.positions is 0x");
  a = good, a.rope = elsewhere;
  assert_refused(&a, "args.rope is 0x");
  a = good, a.q = elsewhere;
  assert_refused(&a, "args.q is 0x");
  a = good, a.qs = elsewhere;
  assert_refused(&a, "args.qs is 0x");

  CUdeviceptr scrap;
  ck_assert_int_eq(session.driver.MemAlloc(&scrap, 496), CUDA_SUCCESS);
  a = good, a.x = scrap;
  assert_refused(&a, "args.x needs 1024 bytes");
  a = good, a.positions = scrap + 488, a.tokens = 2;
  assert_refused(&a, "args.positions needs 16 bytes");
  a = good, a.rope = scrap + 256;
  assert_refused(&a, "args.rope needs 256 bytes");
  a = good, a.q = scrap + 480;
  assert_refused(&a, "args.q needs 128 bytes");
  a = good, a.qs = scrap;
  assert_refused(&a, "args.qs needs 512 bytes");
  ck_assert_int_eq(session.driver.MemFree(scrap), CUDA_SUCCESS);
  assert_untouched();

  ck_assert_msg(bw_wo_a_launch(run.plan, &good, NULL) == BW_OK, "%s", bw_last_error());
  ck_assert_int_eq(session.driver.CtxSynchronize(), CUDA_SUCCESS);
  bwt_wo_a_run_check(&run, false, &result);
  ck_assert_msg(bwt_wo_a_result_finish(&result, &session), "%s", result.why.chars);
  close_run();
}
END_TEST

/* ---- life: any order of release, any current context, no memory taken -------------------- */

START_TEST(release_in_any_order) {
  open_run();
  bw_bundle *other;
  bw_device *device;
  bw_wo_a_plan *plan;
  bw_wo_a_config config = good_config();
  ck_assert_int_eq(bw_bundle_open(NULL, &other), BW_OK);
  ck_assert_int_eq(bw_device_open(other, session.driver.path, 0, &device), BW_OK);
  bw_bundle_close(other);
  ck_assert_msg(bw_wo_a_plan_create(device, &config, &plan) == BW_OK, "%s", bw_last_error());
  bw_device_close(device);
  ck_assert_msg(bw_wo_a_launch(plan, &run.args, NULL) == BW_OK, "%s", bw_last_error());
  bw_wo_a_plan_destroy(plan); /* the launch is still under way */
  ck_assert_int_eq(session.driver.CtxSynchronize(), CUDA_SUCCESS);
  bwt_wo_a_run_check(&run, false, &result);
  ck_assert_msg(bwt_wo_a_result_finish(&result, &session), "%s", result.why.chars);
  close_run();
}
END_TEST

START_TEST(launch_leaves_the_context) {
  open_run();
  CUcontext current = NULL;
  ck_assert_int_eq(session.driver.CtxSetCurrent(NULL), CUDA_SUCCESS);
  ck_assert_msg(bw_wo_a_launch(run.plan, &run.args, NULL) == BW_OK, "%s", bw_last_error());
  ck_assert_int_eq(session.driver.CtxGetCurrent(&current), CUDA_SUCCESS);
  ck_assert_ptr_null(current);
  bw_wo_a_args bad = run.args;
  bad.tokens = 77;
  assert_refused(&bad, "args.tokens");
  ck_assert_int_eq(session.driver.CtxGetCurrent(&current), CUDA_SUCCESS);
  ck_assert_ptr_null(current);
  ck_assert_int_eq(session.driver.CtxSetCurrent(session.context), CUDA_SUCCESS);
  ck_assert_int_eq(session.driver.CtxSynchronize(), CUDA_SUCCESS);
  bwt_wo_a_run_check(&run, false, &result);
  ck_assert_msg(bwt_wo_a_result_finish(&result, &session), "%s", result.why.chars);
  close_run();
}
END_TEST

/* On a GPU other processes take and give back memory, too: there once without will do. */
START_TEST(launch_takes_no_memory) {
  open_run();
  size_t before = 0, after = 0, all = 0;
  int attempts = bwt_on_gpu() ? 100 : 1, same = 0;
  for (int a = 0; a < attempts && same < 3; a++) {
    ck_assert_int_eq(session.driver.MemGetInfo(&before, &all), CUDA_SUCCESS);
    for (same = 0; same < 3; same++) {
      ck_assert_msg(bw_wo_a_launch(run.plan, &run.args, NULL) == BW_OK, "%s", bw_last_error());
      ck_assert_int_eq(session.driver.MemGetInfo(&after, &all), CUDA_SUCCESS);
      if (before != after)
        break;
    }
  }
  ck_assert_msg(same == 3, "%zu bytes free before a launch, %zu after", before, after);
  ck_assert_int_eq(session.driver.CtxSynchronize(), CUDA_SUCCESS);
  close_run();
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("device", device_open, 20),
      BWT_TEST("device", device_open_with_other_library, 20),
      BWT_TEST("device", device_without_code, 20),
      BWT_LOOP("shape", shapes, 0, BWT_COUNT(bad_shapes), 20),
      BWT_TEST("shape", supported, 20),
      BWT_TEST("plan", plan_arguments, 20),
      BWT_TEST("plan", plan_operands, 20),
      BWT_TEST("plan", plan_update, 60),
      BWT_LOOP("entry", entries, 0, BWT_COUNT(bad_entries), 20),
      BWT_TEST("entry", boxes, 60),
      BWT_TEST("launch", launch_arguments, 20),
      BWT_TEST("launch", launch_of_no_tokens, 20),
      BWT_TEST("launch", launch_debug, 60),
      BWT_TEST("life", release_in_any_order, 60),
      BWT_TEST("life", launch_leaves_the_context, 60),
      BWT_TEST("life", launch_takes_no_memory, 60),
  };
  return bwt_suite_main("loader_errors", tests, BWT_COUNT(tests));
}
