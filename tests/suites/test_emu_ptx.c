/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulator's PTX front end: what it accepts, what it refuses and with which words,
 * how it lays out variables and puts calls in place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/ptx/ptx.h"
#include "harness/suite.h"

#define HEAD ".version 9.0\n.target sm_100f\n.address_size 64\n"

static struct module *load(const char *text) {
  char err[512] = "";
  struct module *m = ptx_load(text, strlen(text), err, sizeof err);
  ck_assert_msg(m != NULL, "%s", err);
  return m;
}

/* ---- accepted ----------------------------------------------------------------- */

static const char *const bodies[] = {
    /* registers, ranges, scopes, labels */
    ".reg .b32 %r<10>, a;\n.reg .pred p;\nmov.u32 %r9, 0x1F;\nmov.u32 a, 017;\n"
    "setp.eq.u32 p, a, %r9;\n@p bra L;\n@!p bra.uni L;\nL: { .reg .b32 a; mov.b32 a, 0b101;\n"
    "bra L; L: ret; }\n{ .reg .b64 a; L: mov.b64 a, 0; }",
    /* constants */
    ".reg .f32 f; .reg .f64 d; .reg .b32 r; .reg .b16 h;\n"
    "mov.f32 f, 0f3F800000; mov.f32 f, -1.5e3; mov.f64 d, 0d3FF0000000000000; mov.b32 r, "
    "0f3F800000;"
    "add.f64 d, d, 0f3F800000; mov.u32 r, 4294967295U; mov.s32 r, -5; mov.u32 r, (1<<4)|3;"
    "mov.u32 r, 3+4*2; mov.u32 r, WARP_SZ; add.u16 h, h, -1; mov.u32 r, ~5; mov.u32 r, !0;",
    /* vectors, pairs, sinks */
    ".reg .b16 h<4>; .reg .b32 r<4>; .reg .b64 q<4>; .reg .b128 w<2>; .reg .pred p<3>; .reg .b8 "
    "b<4>;\n"
    "mov.b32 r1, {h1, h2}; mov.b32 {h1, _}, r1; mov.b64 {r1, r2}, q1; mov.b64 q1, {h1, h2, h3, h0};"
    "mov.b128 w1, {q1, q2}; mov.b128 {q1, q2}, w1; mov.b128 w0, w1; mov.b32 r1, {b0, b1, b2, b3};"
    "setp.lt.and.s32 p1|p2, r1, r2, !p0; setp.eq.u32 _|p1, r1, r2; setp.eq.u32 p1|_, r1, r2;"
    "shfl.sync.up.b32 r1|p1, r2, 1, 0, -1; lop3.or.b32 _|p1, r1, r2, r3, 0x3f, p2;"
    "mov.pred p1, 1; mov.pred p1, !p2; and.pred p1, p2, !p0; elect.sync _|p1, -1;",
    /* addresses of variables, special registers */
    ".shared .align 16 .b8 buf[64]; .local .align 8 .b8 stack[32]; .reg .b32 r<3>; .reg .b64 "
    "q<3>;\n"
    "mov.u32 r1, buf; mov.u32 r1, buf+4; mov.u64 q1, stack; cvta.local.u64 q2, q1;"
    "cvta.shared.u64 q1, buf; mov.u32 r1, %tid.x; mov.u64 q1, %clock64; mov.u32 r2, "
    "%cluster_ctarank;"
    "mapa.shared::cluster.u32 r1, buf, 1;",
    /* debug lines and pragmas */
    "#line 7 \"a.cu\"\n.loc 1 2 3\n.loc 1 2 3, function_name $L1, inlined_at 1 3 4\n"
    ".pragma \"nounroll\";\n/* a\ncomment */ pmevent 0; // another\n;",
    /* branch tables */
    ".reg .b32 r;\nmov.u32 r, 1;\nT: .branchtargets A, B;\nbrx.idx r, T;\nA: pmevent 0;\nB: ret;",
    /* carries */
    ".reg .b32 r<4>;\nadd.cc.u32 r0, r1, r2; addc.u32 r3, r1, r2; mad.lo.cc.u32 r0, r1, r2, r3;"
    "madc.hi.u32 r0, r1, r2, r3;",
};

START_TEST(body_is_accepted) {
  char text[4096];
  snprintf(text, sizeof text, HEAD ".visible .entry k() {\n%s\n}\n", bodies[_i]);
  ptx_free(load(text));
}
END_TEST

/* ---- refused --------------------------------------------------------------------- */

static const struct {
  const char *body, *message; /* of the line that is the body's only one: 5 */
} refusals[] = {
    {"frobnicate.u32 a, b;", "line 5: unknown instruction frobnicate: frobnicate.u32 a, b"},
    {"add.u32 a, a;", "line 5: 2 operands where 3 are expected: add.u32 a, a"},
    {"add.wibble.u32 a, a, a;", "line 5: unknown modifier .wibble: add.wibble.u32 a, a, a"},
    {"add.rn.u32 a, a, a;", "line 5: add does not take .u32 here: add.rn.u32 a, a, a"},
    {"add.u32 q, a, a;", "line 5: operand 1: q has 64 bits where 32 are expected: add.u32 q, a, a"},
    {"add.f32 f, u, f;",
     "line 5: operand 2: u is of type .u32 where .f32 is expected: add.f32 f, u, f"},
    {"add.f32 f, f, 1;",
     "line 5: operand 3: integer constant where .f32 is expected: add.f32 f, f, 1"},
    {"mov.u32 a, 1.5;",
     "line 5: operand 2: floating-point constant where .u32 is expected: mov.u32 a, 1.5"},
    {"add.u32 a, a, %tid.x;",
     "line 5: operand 3: special register %tid.x can only be moved: add.u32 a, a, %tid.x"},
    {"add.u32 a, a, nowhere;", "line 5: nowhere is not declared: add.u32 a, a, nowhere"},
    {"mov.u32 a, %clock64;",
     "line 5: operand 2: %clock64 has 64 bits where 32 are expected: mov.u32 a, %clock64"},
    {"bra nowhere;", "line 5: nowhere is not declared: bra nowhere"},
    {"@a bra L; L:", "line 5: a is no predicate: @a bra L"},
    {"popc.b64 q, q;", "line 5: operand 1: q has 64 bits where 32 are expected: popc.b64 q, q"},
    {"lop3.or.b32 a, a, a, a, 1, p;", "line 5: lop3 with a predicate source has a predicate "
                                      "destination, d|p: lop3.or.b32 a, a, a, a, 1, p"},
    {"setp.lo.s32 p, a, a;", "line 5: setp does not take .s32 here: setp.lo.s32 p, a, a"},
    {"cvt.f16.f32 h, f;",
     "line 5: a narrowing conversion needs .rn, .rz, .rm or .rp: cvt.f16.f32 h, f"},
    {"nop;", "line 5: unknown instruction nop: nop"},
    {"elect.sync a, -1;", "line 5: elect.sync has a predicate destination, d|p: elect.sync a, -1"},
    {"mov.u64 q, %tid.x;",
     "line 5: operand 2: %tid.x has 32 bits where 64 are expected: mov.u64 q, %tid.x"},
    {"tex.1d.v4.f32.f32 {f,f,f,f}, [q, {f}];",
     "line 5: textures and surfaces are not emulated: tex.1d.v4.f32.f32 {f,f,f,f}, [q, {f}]"},
    {"call vprintf, (a);", "line 5: function vprintf is not declared: call vprintf, (a)"},
    {"mov.u32 a, 12g;", "line 5: malformed number: 12g"},
    {"mov.b32 a, 0f3F8;", "line 5: a 0f constant has 8 hexadecimal digits: 0f3F8;"},
    {"ld.shared.u32 a, [a-4];", NULL}, /* accepted here although ptxas wants a+-4 */
    {".shared .b8 x[4] = {1};", "line 5: only .global and .const variables have initial values: x"},
    {".reg .b32 a;", "line 5: a is declared twice"},
    {".texref t;", "line 5: directive is not supported in a function: .texref t;"},
    {"{ pmevent 0;", "line 5: '{' is not closed"},
};

START_TEST(body_is_refused) {
  char text[1024], err[512] = "";
  snprintf(text, sizeof text,
           HEAD ".entry k() { .reg .b32 a; .reg .u32 u; .reg .f32 f; .reg .b64 q; .reg .pred p; "
                ".reg .b16 h;\n"
                "%s\n}\n",
           refusals[_i].body);
  struct module *m = ptx_load(text, strlen(text), err, sizeof err);
  if (!refusals[_i].message) {
    ck_assert_msg(m != NULL, "%s", err);
    ptx_free(m);
    return;
  }
  ck_assert_ptr_null(m);
  if (strstr(refusals[_i].message, "is not closed"))
    ck_assert_msg(strstr(err, "is not closed") != NULL, "%s", err);
  else
    ck_assert_str_eq(err, refusals[_i].message);
}
END_TEST

static const struct {
  const char *text, *message;
} modules[] = {
    {"", "line 1: a module starts with .version: end of text"},
    {".version 9.0\n", "line 2: expected .target after .version: end of text"},
    {".version\n.target sm_90\n", "line 2: .version takes a number like 9.0: .target sm_90"},
    {".version 9\n.target sm_90\n", "line 1: .version takes a number like 9.0: 9"},
    {".version 9.\n.target sm_90\n", "line 1: .version takes a number like 9.0: 9."},
    {".version 9.1\n.target sm_90\n", "line 1: unsupported .version 9.1; the newest is 9.0"},
    {".version 9.9\n.target sm_90\n", "line 1: unsupported .version 9.9; the newest is 9.0"},
    {".version 10.0\n.target sm_90\n", "line 1: unsupported .version 10.0; the newest is 9.0"},
    {".version 8.9\n.target sm_90\n", "line 1: unsupported .version 8.9; the newest is 9.0"},
    {".version 0.9\n.target sm_90\n", "line 1: unsupported .version 0.9; the newest is 9.0"},
    {".version 4294967297.0\n.target sm_90\n",
     "line 1: unsupported .version 4294967297.0; the newest is 9.0"},
    {".version 9.0\n.target compute_90\n", "line 2: target is not supported: compute_90"},
    {".version 7.7\n.target sm_90\n",
     "line 2: target sm_90 needs PTX ISA 7.8 or later, this module is of 7.7"},
    {".version 8.7\n.target sm_100f\n",
     "line 2: target sm_100f needs PTX ISA 8.8 or later, this module is of 8.7"},
    {HEAD ".entry k() { ret; }\n.entry k() { ret; }\n", "line 5: function k is defined twice"},
    {HEAD ".func f() { call f; ret; }\n.entry k() { call f; }\n",
     "line 4: recursion is not supported: f calls itself: call f"},
    {HEAD ".extern .func vprintf;\n.entry k() { call vprintf; }\n",
     "line 5: function vprintf has no body in this module: call vprintf"},
    {HEAD ".func f(.param .u32 a) { ret; }\n.entry k() { call f; }\n",
     "line 5: f takes 1 parameters and returns 0: call f"},
    /* a function that no kernel calls is judged too */
    {HEAD ".func f() { bogus; }\n.entry k() { ret; }\n",
     "line 4: unknown instruction bogus: bogus"},
    {".version 9.0\n.target sm_90a\n.entry k() { .reg .b64 q; add.f32x2 q, q, q; }\n",
     "line 3: add needs target sm_100 or later, this module is for sm_90a: add.f32x2 q, q, q"},
    {".version 9.0\n.target sm_100\n.entry k() { .reg .b16 h; .reg .f32 f; cvt.rp.ue8m0x2.f32 h, "
     "f, f; }\n",
     "line 3: cvt needs target sm_100f or another sm_10x target with suffix f or a, this module is "
     "for "
     "sm_100: cvt.rp.ue8m0x2.f32 h, f, f"},
    {HEAD ".global .u64 p = missing;\n.entry k() { ret; }\n",
     "line 4: initial value of p: missing is no .global or .const variable"},
    {HEAD ".global .b8 x[2] = {1, 2, 3};\n", "line 4: too many initial values for x"},
};

START_TEST(module_is_refused) {
  char err[512] = "";
  struct module *m = ptx_load(modules[_i].text, strlen(modules[_i].text), err, sizeof err);
  ck_assert_ptr_null(m);
  ck_assert_str_eq(err, modules[_i].message);
}
END_TEST

/* Cutting a module anywhere gives an error or a module, never a crash. */
START_TEST(truncations_are_survived) {
  static const char text[] =
      HEAD ".file 1 \"a\"\n.global .align 4 .f32 t[2][2] = {{0f3F800000, 1.0}, {-2.5, 0.0}};\n"
           ".extern .shared .align 128 .b8 dyn[];\n.func (.param .b32 r) f (.param .b32 a)\n{ .reg "
           ".b32 x;\n"
           "ld.param.b32 x, [a]; add.s32 x, x, 1; st.param.b32 [r], x; ret; }\n"
           ".visible .entry k(.param .u64 p, .param .align 64 .b8 m[128]) .reqntid 32, 1, 1\n{ "
           ".reg .b32 %r<4>;\n"
           "{ .param .b32 i; .param .b32 o; st.param.b32 [i+0], 3; call.uni (o), f, (i); "
           "ld.param.b32 %r1, [o]; }\n"
           "L: mov.u32 %r2, dyn; ret; }\n.section .debug_x { .b8 1 }\n";
  char err[256], part[sizeof text];
  for (size_t n = 0; n < sizeof text; n++) {
    memcpy(part, text, n);
    part[n] = 0;
    err[0] = 0;
    struct module *m = ptx_load(part, n, err, sizeof err);
    if (!m)
      BWT_REQUIRE(strncmp(err, "line ", 5) == 0, "after %zu bytes: \"%s\"", n, err);
    ptx_free(m);
  }
}
END_TEST

START_TEST(nesting_is_bounded) {
  static const char open[] = {'(', '-', '{'};
  char *text = malloc(2000000), err[256] = "";
  for (size_t k = 0; k < sizeof open; k++) {
    size_t n = (size_t)sprintf(text, HEAD ".entry k() { .reg .b32 a;%s",
                               open[k] == '{' ? "" : "mov.u32 a,");
    memset(text + n, open[k], 1000000);
    ck_assert_ptr_null(ptx_load(text, n + 1000000, err, sizeof err));
    ck_assert_str_eq(err, "line 4: brackets nested more than 256 deep");
  }
  free(text);
}
END_TEST

/* ---- layout -------------------------------------------------------------------------- */

START_TEST(entry_is_described) {
  struct module *m = load(
      HEAD ".extern .shared .align 1024 .b8 dyn[];\n"
           ".visible .entry k(.param .u32 n, .param .align 64 .b8 map[128], .param .u64 .ptr "
           ".global .align 16 p)\n"
           ".maxntid 256 .minnctapersm 2 .maxnreg 64 .reqnctapercluster 4, 2 .explicitcluster\n"
           "{ .shared .align 8 .b8 a[12]; .shared .b32 b; .shared .b64 unused;\n"
           "  .local .align 16 .b8 s[20]; .reg .b32 r;\n"
           "  mov.u32 r, b; mov.u32 r, a; mov.u32 r, dyn+8; ret; }\n");
  const struct function *f = ptx_function(m, "k");
  ck_assert_ptr_nonnull(f);
  ck_assert_ptr_null(ptx_function(m, "other"));
  ck_assert_uint_eq(f->nparam, 3);
  ck_assert_uint_eq(f->param[1].offset, 64);
  ck_assert_uint_eq(f->param[2].offset, 192);
  ck_assert_uint_eq(f->param_bytes, 200);
  ck_assert_uint_eq(f->maxntid[0], 256);
  ck_assert_uint_eq(f->maxntid[2], 1);
  ck_assert_uint_eq(f->minnctapersm, 2);
  ck_assert_uint_eq(f->maxnreg, 64);
  ck_assert_uint_eq(f->reqcluster[0], 4);
  ck_assert_uint_eq(f->reqcluster[1], 2);
  ck_assert(f->explicit_cluster);
  ck_assert(f->dynamic_shared);
  /* in the order of first use: b, then a at the next multiple of 8 */
  ck_assert_uint_eq(f->shared_bytes, 20);
  ck_assert_uint_eq(f->insn[0].opd[1].imm, 0);
  ck_assert_uint_eq(f->insn[1].opd[1].imm, 8);
  ck_assert_uint_eq(f->dynamic_offset, 1024);
  ck_assert_uint_eq(f->insn[2].opd[1].imm, 1032);
  ck_assert_uint_eq(f->local_bytes, 20);
  ck_assert_uint_eq(f->insn[1].line, 9);
  ck_assert_str_eq(f->insn[1].text, "mov.u32 r, a");
  ptx_free(m);
}
END_TEST

START_TEST(variables_are_placed) {
  struct module *m = load(HEAD ".global .align 8 .b32 a[2] = {1, -2};\n"
                               ".const .f32 c[2][2] = {{1.0, 0f40000000}, {-0.5}};\n"
                               ".global .u64 p[2] = {a+4, generic(c)};\n"
                               ".entry k() { .reg .b64 q; mov.u64 q, a+4; ret; }\n");
  ck_assert_uint_eq(m->nvar, 3);
  m->var[0].address = 0x1000;
  m->var[1].address = 0x2000;
  m->var[2].address = 0x3000;
  ptx_place(m);
  ptx_place(m); /* the second time changes nothing */
  static const uint8_t a[8] = {1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff};
  ck_assert_mem_eq(m->var[0].init, a, 8);
  static const uint32_t c[4] = {0x3f800000, 0x40000000, 0xbf000000, 0};
  ck_assert_mem_eq(m->var[1].init, c, 16);
  static const uint64_t p[2] = {0x1004, 0x2000};
  ck_assert_mem_eq(m->var[2].init, p, 16);
  ck_assert_uint_eq(ptx_function(m, "k")->insn[0].opd[1].imm, 0x1004);
  ck_assert_uint_eq(m->var[1].space, SPACE_const);
  ptx_free(m);
}
END_TEST

/* Each call has registers and parameters of its own; ret goes behind the call. */
START_TEST(calls_are_inlined) {
  struct module *m = load(
      HEAD ".func (.param .b32 out) twice (.param .b32 in)\n"
           "{ .reg .b32 x; .reg .pred p;\nld.param.b32 x, [in];\nsetp.eq.u32 p, x, 0;\n@p ret;\n"
           "add.u32 x, x, x;\nst.param.b32 [out], x;\nret; }\n"
           ".entry k() { .reg .b32 a;\n"
           "{ .param .b32 i; .param .b32 o; st.param.b32 [i], 3;\ncall.uni (o), twice, (i);\n"
           "ld.param.b32 a, [o]; }\n"
           "{ .param .b32 i; .param .b32 o; st.param.b32 [i], a;\ncall.uni (o), twice, (i);\n"
           "ld.param.b32 a, [o]; }\nret; }\n");
  const struct function *f = ptx_function(m, "k");
  ck_assert_uint_eq(f->nreg, 5);         /* a, and x and p of each call */
  ck_assert_uint_eq(f->local_bytes, 16); /* i and o of each */
  ck_assert_uint_eq(f->ninsn, 18);
  const struct insn *ret = &f->insn[3];
  ck_assert_str_eq(ret->text, "@p ret");
  ck_assert_int_ge(ret->pred, 0);
  ck_assert_uint_eq(ret->opd[0].imm, 7); /* behind the call: ld.param a, [o] */
  ck_assert_str_eq(f->insn[7].text, "ld.param.b32 a, [o]");
  ck_assert_int_eq(f->insn[0].opd[0].space, SPACE_local);
  ck_assert_uint_eq(f->insn[1].opd[1].imm, f->insn[0].opd[0].imm);
  ck_assert_uint_ne(f->insn[9].opd[1].imm, f->insn[1].opd[1].imm);
  ptx_free(m);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("accepted", body_is_accepted, 0, (int)BWT_COUNT(bodies), 10),
      BWT_LOOP("refused", body_is_refused, 0, (int)BWT_COUNT(refusals), 10),
      BWT_LOOP("refused", module_is_refused, 0, (int)BWT_COUNT(modules), 10),
      BWT_TEST("refused", nesting_is_bounded, 10),
      BWT_TEST("refused", truncations_are_survived, 30),
      BWT_TEST("layout", entry_is_described, 10),
      BWT_TEST("layout", variables_are_placed, 10),
      BWT_TEST("layout", calls_are_inlined, 10),
  };
  return bwt_suite_main("emu_ptx", tests, BWT_COUNT(tests));
}
