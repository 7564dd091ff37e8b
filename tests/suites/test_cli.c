/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line as a user meets it: what each command prints, its exit status, and
 * what it says to bad input.
 */
#include "harness/command.h"
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[PATH_MAX], program[PATH_MAX], output[1 << 20];

static void setup(void) {
  bwt_folder_make(folder);
  ck_assert_msg(bwt_build_file("bin/barewarp", program), "no command line in the build");
}

static void teardown(void) {
  bwt_folder_remove(folder);
}

/* `barewarp ARGUMENTS`, in whose text %s may stand for the folder. */
#define RUN(...) bwt_command(output, sizeof output, __VA_ARGS__)

/* Words that only the emulated driver gives occasion for; on a GPU any will do. */
static const char *emulated(const char *words) {
  return bwt_on_gpu() ? "" : words;
}

static void assert_says(int status, int want, const char *words) {
  ck_assert_msg(status == want, "exit status %d, not %d:\n%s", status, want, output);
  ck_assert_msg(strstr(output, words) != NULL, "\"%s\" is not in:\n%s", words, output);
}

/* ---- what it prints ------------------------------------------------------------ */

START_TEST(help) {
  setup();
  static const char *const commands[] = {"info", "list",       "show",    "verify",
                                         "run",  "make-input", "compare", "pack"};
  assert_says(RUN("'%s' --help", program), 0, "usage: barewarp COMMAND");
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    char usage[64];
    snprintf(usage, sizeof usage, "usage: barewarp %s", commands[i]);
    assert_says(RUN("'%s' --help", program), 0, commands[i]);
    assert_says(RUN("'%s' %s --help", program, commands[i]), 0, usage);
  }
  teardown();
}
END_TEST

START_TEST(info_and_list) {
  setup();
  assert_says(RUN("'%s' info", program), 0, emulated("emulated sm_100"));
  ck_assert_ptr_nonnull(strstr(output, "device 0"));
  assert_says(RUN("'%s' list --arch sm_100f", program), 0, "t32x4f_h8");
  teardown();
}
END_TEST

/* Lines that start so. */
static unsigned lines(const char *start) {
  unsigned n = 0;
  for (const char *at = output; at != NULL && *at != '\0';) {
    n += strncmp(at, start, strlen(start)) == 0;
    at = strchr(at, '\n');
    at = at != NULL ? at + 1 : NULL;
  }
  return n;
}

START_TEST(list_counts) {
  setup();
  assert_says(RUN("'%s' list --arch sm_100f", program), 0, "wo_a");
  ck_assert_uint_eq(lines("wo_a"), 4 * 50);
  assert_says(RUN("'%s' list --arch sm_100f --max-tokens 96", program), 0, "wo_a");
  ck_assert_uint_eq(lines("wo_a"), 4 * 46);
  assert_says(
      RUN("'%s' list --json --arch sm_100f --max-tokens 1 | python3 -c '"
          "import json, sys; a = [k for k in json.load(sys.stdin) if k[\"family\"] == \"wo_a\"]; "
          "print(len(a), a[0][\"key\"], a[0][\"threads\"])'",
          program),
      0, "4 t1x1f_h1 128");
  /* Nothing matches: an error in either form. */
  assert_says(RUN("'%s' list --arch sm_80", program), 1, "no specialization of the bundle matches");
  assert_says(RUN("'%s' list --json --arch sm_80", program), 1,
              "no specialization of the bundle matches");
  teardown();
}
END_TEST

START_TEST(show_ptx) {
  setup();
  assert_says(RUN("'%s' show t32x1f_h8 --ptx", program), 0, "// @barewarp key t32x1f_h8");
  ck_assert_ptr_nonnull(strstr(output, "tcgen05.mma"));
  assert_says(RUN("'%s' show t33x1f_h8 --ptx", program), 1, "the bundle has no 't33x1f_h8'");
  assert_says(RUN("'%s' show t32x1f_h8", program), 2, "one of --ptx and --sass");
  teardown();
}
END_TEST

/* ---- running ------------------------------------------------------------------------ */

START_TEST(verify) {
  setup();
  assert_says(RUN("'%s' verify wo_a --tokens 1,3-4 --groups 1 --lora-rank 128 "
                  "--heads-per-group 1,2 --seed %" PRIu64,
                  program, bwt_run_seed() >> 1),
              0, "\n6 passed, 0 failed\n");
  assert_says(
      RUN("'%s' verify wo_a --tokens 2 --groups 1 --lora-rank 128 --device sm_103", program), 0,
      emulated("emulated sm_103"));
  teardown();
}
END_TEST

/* A shape that the library refuses is a failed case, and the exit status says so. */
START_TEST(verify_fails) {
  setup();
  assert_says(RUN("'%s' verify wo_a --tokens 1 --groups 1 --lora-rank 100", program), 1,
              "\n0 passed, 1 failed\n");
  ck_assert_ptr_nonnull(strstr(output, "lora_rank"));
  assert_says(RUN("'%s' verify wo_a --driver /nonexistent.so --tokens 1", program), 1,
              "0 passed, 1 failed\n");
  teardown();
}
END_TEST

START_TEST(file_to_file) {
  setup();
  static const char *const sizes[] = {
      "--tokens 5 --groups 3 --heads-per-group 4 --lora-rank 128 --context 100",
      "--tokens 1 --groups 1 --heads-per-group 1 --lora-rank 256 --context 1",
      "--tokens 0 --groups 1 --heads-per-group 2 --lora-rank 128 --context 9"};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    assert_says(RUN("'%s' make-input wo_a --output '%s/in' %s --seed %" PRIu64, program, folder,
                    sizes[i], bwt_run_seed() >> 1),
                0, "rows a group");
    assert_says(RUN("'%s' run wo_a --input '%s/in' --output '%s/out'", program, folder, folder), 0,
                emulated("emulated"));
    assert_says(RUN("'%s' compare wo_a --input '%s/in' --output '%s/out'", program, folder, folder),
                0, emulated("equal to the model")); /* on Hopper it is within bounds */
  }
  teardown();
}
END_TEST

START_TEST(verify_mailbox) {
  setup();
  uint64_t seed = bwt_run_seed() >> 1;
  /* Every rank, every mode. */
  assert_says(RUN("'%s' verify up_proj --rows 1-2 --tp 1,2 --latent 1792 --hidden 128 --seed "
                  "%" PRIu64,
                  program, seed),
              0, bwt_on_gpu() ? "\n12 passed, 0 failed\n" : "\n16 passed, 0 failed\n");
  assert_says(RUN("'%s' verify up_proj --rows 3 --tp 4 --rank 1,3 --mode %s --latent 1792 "
                  "--hidden 256 --seed %" PRIu64,
                  program, bwt_on_gpu() ? "peers" : "multicast", seed),
              0, "\n2 passed, 0 failed\n");
  assert_says(RUN("'%s' verify lamport_copy --rows 0,5 --tp 1,8 --hidden 512 --seed %" PRIu64,
                  program, seed),
              0, "\n4 passed, 0 failed\n");
  assert_says(
      RUN("'%s' verify up_proj --rows 1 --tp 1 --mode local --latent 1000 --hidden 64", program), 1,
      "\n0 passed, 1 failed\n");
  ck_assert_ptr_nonnull(strstr(output, "latent_dim is 1000"));
  ck_assert_ptr_null(strstr(output, "--bundle")); /* in the command that replays the case */
  char bundle[PATH_MAX], wanted[PATH_MAX + 32];
  ck_assert(bwt_build_file("barewarp.bundle", bundle));
  snprintf(wanted, sizeof wanted, " --bundle '%s'\n", bundle);
  assert_says(RUN("'%s' verify up_proj --rows 1 --tp 1 --mode local --latent 1000 --hidden 64 "
                  "--bundle '%s'",
                  program, bundle),
              1, wanted);
  if (bwt_on_gpu()) {
    teardown();
    return;
  }
  assert_says(RUN("EMU_DEVICES=2 '%s' verify up_proj --rows 1 --tp 4 --rank 0 --mode multicast "
                  "--latent 1792 --hidden 64",
                  program),
              1, "4 devices are needed, there are 2");
  teardown();
}
END_TEST

/* A step of all ranks, on a device each and on one; a change in what one rank got is seen. */
START_TEST(step_file_to_file) {
  setup();
  assert_says(RUN("'%s' make-input up_proj --output '%s/in' --rows 3 --latent 1792 --hidden 256 "
                  "--seed %" PRIu64,
                  program, folder, bwt_run_seed() >> 1),
              0, "3 rows");
  assert_says(
      RUN("'%s' run up_proj --input '%s/in' --output '%s/out' --tp 4", program, folder, folder), 0,
      bwt_on_gpu() ? "mode peers" : "mode multicast");
  assert_says(
      RUN("'%s' compare up_proj --input '%s/in' --output '%s/out'", program, folder, folder), 0,
      "4 ranks  equal to the model (0 of 3072 elements differ)");
  assert_says(RUN("EMU_DEVICES=1 '%s' run up_proj --input '%s/in' --output '%s/one' --tp 4",
                  program, folder, folder),
              0, "mode peers");
  assert_says(RUN("cmp '%s/out' '%s/one' && echo same", folder, folder), 0, "same");
  assert_says(
      RUN("'%s' run up_proj --input '%s/in' --output '%s/none' --tp 3", program, folder, folder), 1,
      "must be a multiple of --tp, 3");
  assert_says(RUN("python3 -c \"p = '%s/out'; b = bytearray(open(p, 'rb').read()); b[-1] ^= 1; "
                  "open(p, 'wb').write(b)\" && '%s' compare up_proj --input '%s/in' --output "
                  "'%s/out'",
                  folder, program, folder, folder),
              1, "rank 3's columns at rank 3: 1 of");
  teardown();
}
END_TEST

/* One wrong byte anywhere in the outputs is seen. */
START_TEST(compare_sees_changes) {
  setup();
  assert_says(RUN("'%s' make-input wo_a --output '%s/in' --tokens 3 --groups 1 "
                  "--heads-per-group 1 --lora-rank 128 --context 5 --seed 4 && "
                  "'%s' run wo_a --input '%s/in' --output '%s/out'",
                  program, folder, program, folder, folder),
              0, emulated("emulated"));
  /* The last byte is a padding row of qs. */
  assert_says(RUN("python3 -c \"p = '%s/out'; b = bytearray(open(p, 'rb').read()); b[-1] ^= 1; "
                  "open(p, 'wb').write(b)\" && '%s' compare wo_a --input '%s/in' --output '%s/out'",
                  folder, program, folder, folder),
              1, "differs from the model");
  teardown();
}
END_TEST

/* The two forms of weight_scale give the same result. */
START_TEST(packed_scales) {
  setup();
  assert_says(RUN("'%s' make-input wo_a --output '%s/in' --tokens 2 --groups 2 "
                  "--heads-per-group 2 --lora-rank 128 --context 5 --seed 6",
                  program, folder),
              0, "seed 6");
  assert_says(
      RUN("python3 - '%s' <<'END'\n"
          "import json, struct, sys\n"
          "raw = open(sys.argv[1] + '/in', 'rb').read()\n"
          "n = struct.unpack('<Q', raw[:8])[0]\n"
          "head, data = json.loads(raw[8:8 + n]), raw[8 + n:]\n"
          "b, e = head['weight_scale']['data_offsets']\n"
          "s, rows, cols, groups = data[b:e], 256, 32, 2\n"
          "assert head['weight_scale']['shape'] == [rows, cols]\n"
          "out = bytearray()\n"
          "for g in range(groups):\n"
          "  for c in range(cols // 4):\n"
          "    for r in range(rows // groups):\n"
          "      at = (g * rows // groups + r) * cols + 4 * c\n"
          "      out += s[at:at + 4]\n"
          "head['weight_scale'].update(dtype='I32', shape=[groups, cols // 4, rows // groups])\n"
          "text = json.dumps(head).encode()\n"
          "open(sys.argv[1] + '/packed', 'wb').write("
          "struct.pack('<Q', len(text)) + text + data[:b] + bytes(out) + data[e:])\n"
          "END\n",
          folder),
      0, "");
  assert_says(RUN("for f in in packed; do '%s' run wo_a --input '%s/'$f --output '%s/out_'$f || "
                  "exit 1; done; cmp '%s/out_in' '%s/out_packed' && echo same",
                  program, folder, folder, folder, folder),
              0, "same");
  teardown();
}
END_TEST

/* ---- bad input -------------------------------------------------------------------------- */

START_TEST(bad_command_lines) {
  setup();
  static const struct {
    const char *arguments, *says;
  } bad[] = {
      {"", "usage:"},
      {"nonsense", "there is no command 'nonsense'"},
      {"verify", "a family is needed"},
      {"verify up_and_down", "a family is needed"},
      {"verify wo_a --tokens", "--tokens needs a value"},
      {"verify wo_a --tokens 1 --tokens 2", "--tokens is given twice"},
      {"verify wo_a --tokens 129", "--tokens is '129'"},
      {"verify wo_a --tokens 5-3", "--tokens is '5-3'"},
      {"verify wo_a --tokens 1,,2", "--tokens is '1,,2'"},
      {"verify wo_a --tokens x", "--tokens is 'x'"},
      {"verify wo_a --tokens -1", "--tokens is '-1'"},
      {"verify wo_a --groups 99999999999999999999", "--groups is"},
      {"verify wo_a --heads-per-group 9", "--heads-per-group is '9'"},
      {"verify wo_a --seed 1.5", "--seed is '1.5'"},
      {"verify wo_a --arch sm_80", "--arch sm_80"},
      {"verify wo_a --arch sm_90a --device sm_103", "--arch sm_90a --device sm_103"},
      {"verify wo_a --tokans 3", "unknown option '--tokans'"},
      {"verify wo_a extra", "unexpected 'extra'"},
      {"list --max-tokens 0", "--max-tokens is '0'"},
      {"list --json=yes", "--json takes no value"},
      {"make-input wo_a", "--output is needed"},
      {"make-input wo_a --output x --lora-rank 130", "multiple of 128"},
      {"run wo_a --input x", "--output are needed"},
      {"verify up_proj --rows 9", "--rows is '9'"},
      {"verify up_proj --tp 17", "--tp is '17'"},
      {"verify up_proj --tp 3", "--hidden is 7168, must be a multiple of --tp, 3"},
      {"verify up_proj --mode sideways", "--mode is 'sideways'"},
      {"verify lamport_copy --mode local", "unknown option '--mode'"},
      {"make-input up_proj", "--output is needed"},
      {"run up_proj --output x", "--input and --output are needed"},
      {"run lamport_copy", "a family is needed"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_says(RUN("'%s' %s", program, bad[i].arguments), 2, bad[i].says);
  teardown();
}
END_TEST

/* A file whose header a Python expression changes: h is the header, d the data. */
static void edited_input(const char *edit) {
  assert_says(RUN("'%s' make-input wo_a --output '%s/in' --tokens 2 --groups 1 "
                  "--heads-per-group 1 --lora-rank 128 --context 3 --seed 2",
                  program, folder),
              0, "seed 2");
  int status =
      RUN("python3 - '%s' <<'END'\n"
          "import json, struct, sys\n"
          "raw = open(sys.argv[1] + '/in', 'rb').read()\n"
          "n = struct.unpack('<Q', raw[:8])[0]\n"
          "h, d = json.loads(raw[8:8 + n]), bytearray(raw[8 + n:])\n"
          "%s\n"
          "text = json.dumps(h).encode()\n"
          "open(sys.argv[1] + '/in', 'wb').write(struct.pack('<Q', len(text)) + text + d)\n"
          "END\n",
          folder, edit);
  ck_assert_msg(status == 0, "%s", output);
}

static const struct {
  const char *edit, *says;
} bad_files[] = {
    {"del h['x']", "tensor 'x' is missing"},
    {"del h['rope']", "tensor 'rope' is missing"},
    {"del h['weight_scale']", "tensor 'weight_scale' is missing"},
    {"h['x']['dtype'] = 'F16'", "tensor 'x' is F16 [2, 1, 512], must be BF16"},
    {"h['weight']['dtype'] = 'U8'", "tensor 'weight' is U8"},
    {"h['positions']['dtype'] = 'F64'", "tensor 'positions' is F64"},
    {"h['x']['shape'] = [2, 512]", "tensor 'x' is BF16 [2, 512], must be"},
    {"h['x']['shape'] = [4, 1, 256]", "heads have 512 elements"},
    {"h['weight']['shape'] = [512, 128]", "tensor 'weight' is F8_E4M3 [512, 128]"},
    {"h['weight']['shape'] = [64, 1024]", "'x'"},
    {"h['rope']['shape'] = [6, 32]", "tensor 'rope'"},
    {"h['weight_scale']['shape'] = [64, 32]", "tensor 'weight_scale'"},
    {"h['x']['data_offsets'][1] += 2", "tensor 'x' has data_offsets that do not fit"},
    {"h['x']['data_offsets'] = [10**9, 10**9 + 2048]", "outside the file"},
    {"h['x']['data_offsets'] = [-2048, 0]", "outside the file"},
    {"h['x']['data_offsets'] = [False, '2048']", "has data_offsets that are not two numbers"},
    {"b = h['x']['data_offsets'][0]; h['positions']['data_offsets'] = [b + 16, b + 32]",
     "overlaps another"},
    {"h['x']['shape'] = [2, -1, 512]", "has a shape that is not"},
    {"h['x']['shape'] = [2**62, 2**62, 512]", "has a shape that is not"},
    {"h['x']['dtype'] = 'Q9'", "has a dtype that is not known"},
    {"h['x'] = 3", "has no dtype"},
    {"b = h['positions']['data_offsets'][0]; d[b:b + 8] = struct.pack('<q', 3)",
     "positions[0] is 3, must be 0..2"},
    {"b = h['positions']['data_offsets'][0]; d[b + 8:b + 16] = struct.pack('<q', -1)",
     "positions[1] is -1, must be 0..2"},
    {"d = d[:-1]", "outside the file"},
    {"h = []", "not a safetensors file"},
};

START_TEST(bad_input_file) {
  setup();
  edited_input(bad_files[_i].edit);
  assert_says(RUN("'%s' run wo_a --input '%s/in' --output '%s/out'", program, folder, folder), 1,
              bad_files[_i].says);
  assert_says(RUN("test -e '%s/out' || echo none", folder), 0, "none");
  teardown();
}
END_TEST

START_TEST(unreadable_files) {
  setup();
  assert_says(RUN("'%s' run wo_a --input '%s/absent' --output '%s/out'", program, folder, folder),
              1, "absent");
  assert_says(RUN("'%s' run wo_a --input '%s' --output '%s/out'", program, folder, folder), 1,
              folder);
  assert_says(RUN(": > '%s/empty'; '%s' run wo_a --input '%s/empty' --output '%s/out'", folder,
                  program, folder, folder),
              1, "not a safetensors file");
  assert_says(RUN("'%s' info --bundle '%s/empty'", program, folder), 1, "empty");
  assert_says(RUN("'%s' make-input wo_a --output '%s/no/such/folder/f' --seed 1", program, folder),
              1, "no/such/folder");
  teardown();
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("prints", help, 60),
      BWT_TEST("prints", info_and_list, 60),
      BWT_TEST("prints", list_counts, 60),
      BWT_TEST("prints", show_ptx, 60),
      BWT_TEST("runs", verify, 120),
      BWT_TEST("runs", verify_fails, 60),
      BWT_TEST("runs", file_to_file, 120),
      BWT_TEST("runs", verify_mailbox, 120),
      BWT_TEST("runs", step_file_to_file, 120),
      BWT_TEST("runs", compare_sees_changes, 120),
      BWT_TEST("runs", packed_scales, 120),
      BWT_TEST("refuses", bad_command_lines, 120),
      BWT_LOOP("refuses", bad_input_file, 0, (int)(sizeof bad_files / sizeof *bad_files), 60),
      BWT_TEST("refuses", unreadable_files, 60),
  };
  return bwt_suite_main("cli", tests, BWT_COUNT(tests));
}
