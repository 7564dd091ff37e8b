/* SPDX-License-Identifier: Apache-2.0
 *
 * What the emulated driver leaves out is refused when a module is loaded, by name, with line
 * and text: never a silent no-op.
 */
#include <stdio.h>
#include <string.h>

#include "emulator/ptx/ptx.h"
#include "harness/suite.h"

static const struct {
  const char *insn, *name; /* an instruction, and what the message must say of it */
} left_out[] = {
    {"tex.2d.v4.f32.f32 {f, f, f, f}, [q, {f, f}]", "textures"},
    {"suld.b.1d.b32.trap r, [q, {r}]", "textures"},
    {"vadd.u32.u32.u32 r, r, r", "video"},
    {"alloca.u64 q, q", "stack"},
    {"cvt.rs.f16x2.f32 r, f, f, r", "stochastic"},
    {"tcgen05.mma.cta_group::2.kind::f16 [r], q, q, r, p", "cta_group::2"},
    {"tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [r], 32", "cta_group::2"},
    {"tcgen05.mma.cta_group::1.kind::mxf4.block_scale [r], q, q, r, [r], [r], p", "mxf4"},
    {"tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [r], q, q, r, [r], [r], p",
     "mxf4nvf4"},
    {"tcgen05.mma.sp.cta_group::1.kind::f16 [r], q, q, [r], r, p", "sparse"},
    {"tcgen05.mma.ws.cta_group::1.kind::f16 [r], q, q, r, p", "weight-stationary"},
    {"tcgen05.mma.cta_group::1.kind::i8 [r], q, q, r, p", "kind::i8"},
    {"tcgen05.shift.cta_group::1.down [r]", "shift"},
    {"wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {f, f, f, f}, q, q, r, 0, p, 1, 1, 0, 0",
     "sparse"},
    {"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f, f, f, f}, {r, r}, {r, r}, {f, f, f, "
     "f}, r, 0",
     "sparse"},
    {"wmma.load.a.sync.aligned.row.m16n16k16.f16 {r, r, r, r, r, r, r, r}, [q]", "wmma"},
    {"cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [r], [q, "
     "{r, r, r, r}], "
     "[r], {h, h}",
     "im2col"},
    {"clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [r], [r]",
     "cluster launch control"},
    {"call.uni (r), vprintf, (q, q)", "vprintf"},
    {"call.uni (r), cudaLaunchDeviceV2, (q, q)", "cudaLaunchDeviceV2"},
};

START_TEST(refused_by_name) {
  char text[1024], err[1024] = "";
  int n = snprintf(
      text, sizeof text,
      ".version 9.0\n.target %s\n.address_size 64\n"
      ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
      ".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 a, .param .b64 b);\n"
      ".visible .entry k() {\n.reg .b32 r, f; .reg .b64 q; .reg .b16 h; .reg .pred p;\n"
      "%s;\nret;\n}\n",
      strncmp(left_out[_i].insn, "wgmma", 5) == 0 ? "sm_90a" : "sm_100a", left_out[_i].insn);
  struct module *m = ptx_load(text, (size_t)n, err, sizeof err);
  ck_assert_msg(m == NULL, "%s was taken", left_out[_i].insn);
  ck_assert_msg(strstr(err, left_out[_i].name) != NULL, "%s: %s", left_out[_i].insn, err);
  ck_assert_msg(strstr(err, "line 8") != NULL, "%s: %s", left_out[_i].insn, err);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("refused", refused_by_name, 0, (int)BWT_COUNT(left_out), 10)};
  return bwt_suite_main("emu_refused", tests, BWT_COUNT(tests));
}
