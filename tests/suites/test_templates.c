/* SPDX-License-Identifier: Apache-2.0
 *
 * What the templates' prelude and the last step of an expansion refuse: each case is a
 * small template with one mistake that m4 by itself would pass without a word.
 */
#include "harness/command.h"
#include "harness/suite.h"

#include <stdio.h>
#include <string.h>

static const char prelude[] = "include(`prelude.m4')dnl\n";

static const struct {
  const char *name;
  const char *text; /* after the prelude */
  const char *says; /* NULL: it is accepted */
} cases[] = {
    {"nothing wrong", "macro(<|one|>, 1, <|\nmov.u32 $1, 0;|>)dnl\none(r)\n", NULL},
    {"too few arguments", "macro(<|two|>, 2, <|\nmov.u32 $1, $2;|>)dnl\ntwo(r)\n",
     "two: 2 arguments wanted, got 1"},
    {"too many arguments", "macro(<|one|>, 1, <|\nmov.u32 $1, 0;|>)dnl\none(r, s)\n",
     "one: 1 arguments wanted, got 2"},
    {"empty argument", "macro(<|two|>, 2, <|\nmov.u32 $1, $2;|>)dnl\ntwo(r, )\n",
     "two: argument 2 is empty"},
    {"macro defined twice", "macro(<|a_b|>, 0, <|\nret;|>)dnl\nmacro(<|a_b|>, 0, <|\nret;|>)dnl\n",
     "macro a_b is defined twice"},
    {"constant defined twice", "constant(<|WIDTH|>, 1)dnl\nconstant(<|WIDTH|>, 2)dnl\n",
     "constant WIDTH is defined twice"},
    {"required constant missing", "m4_integer(<|BW_ROWS|>, 1, 8)dnl\n", "BW_ROWS is not defined"},
    {"required constant out of range", "define(<|BW_ROWS|>, 9)m4_integer(<|BW_ROWS|>, 1, 8)dnl\n",
     "BW_ROWS is 9, not in 1..8"},
    {"required constant not a number",
     "define(<|BW_ROWS|>, <|three|>)m4_integer(<|BW_ROWS|>, 1, 8)dnl\n",
     "BW_ROWS is not a number: three"},
    {"not a power of two", "constant(<|WIDTH|>, 12)m4_assert_power_of_2(<|WIDTH|>)dnl\n",
     "WIDTH is not a power of two"},
    {"assertion", "m4_assert(1 > 2, <|one is not more|>)dnl\n", "one is not more"},
    {"block never closed", "only_begin(here, p)\nret;\n", "only_begin is never closed"},
    {"block never opened", "only_end\n", "only_end without only_begin"},
    {"blocks crossed", "only_begin(a, p)\nwarps_begin(b, q)\nonly_end\nwarps_end\n",
     "only_end closes warps_begin"},
    {"prelude twice", "include(<|prelude.m4|>)dnl\n", "prelude.m4 is included twice"},
    {"library twice", "include(<|pdl.m4|>)dnl\ninclude(<|pdl.m4|>)dnl\n",
     "pdl.m4 is included twice"},
    {"loop without a body", "m4_for(<|I|>, 0, 3)dnl\n", "m4_for: 4 arguments wanted, got 3"},
    {"bad alignment", "shared_field(<|S_A|>, 8, 12, <|text|>)\n", "shared_field S_A: alignment 12"},
    {"file that is not there", "include(<|absent.m4|>)dnl\n", "absent.m4"},
    {"misspelt constant", "{\nmov.u32 r, WIDHT;\n}\n", "constant not expanded"},
    {"misspelt macro", "{\nmbarrier_weit(a, 0)\n}\n", "macro not expanded"},
    {"two statements on a line", "{\nret; ret;\n}\n", "more than one statement"},
    {"brace never closed", "{\nret;\n", "end of file inside"},
    {"brace never opened", "ret;\n}\n", "nothing to close"},
    {"bracket never closed", "{\nld.global.u32 r, [a;\n}\n", "brackets do not match"},
    {"parameter left over", "{\nmov.u32 r, $1;\n}\n", "macro parameter left over"},
    {"quote left over", "{\nmov.u32 r, <|<|0|>;\n}\n", ""},
};

/* With an apostrophe in a quoted body: it must arrive unchanged. */
START_TEST(apostrophes_are_text) {
  char folder[PATH_MAX], output[1 << 14];
  bwt_folder_make(folder);
  int status = bwt_command(output, sizeof output,
                           "cat > '%s/t.m4' <<'END'\n%smacro(<|note|>, 1, <|\n"
                           "// the warp's own $1, and `so' on|>)dnl\nnote(lane)\nEND\n"
                           "m4 -E -E -I ptx/lib '%s/t.m4'",
                           folder, prelude, folder);
  ck_assert_msg(status == 0 && strstr(output, "// the warp's own lane, and `so' on") != NULL, "%s",
                output);
  bwt_folder_remove(folder);
}
END_TEST

START_TEST(refused) {
  char folder[PATH_MAX], output[1 << 14];
  bwt_folder_make(folder);
  int status = bwt_command(output, sizeof output,
                           "cat > '%s/t.m4' <<'END'\n%s%sEND\n"
                           "m4 -E -E -I ptx/lib '%s/t.m4' > '%s/out' && "
                           "awk -v NAME=expansion -f ptx/lib/finish.awk '%s/out'",
                           folder, prelude, cases[_i].text, folder, folder, folder);
  if (cases[_i].says == NULL)
    ck_assert_msg(status == 0, "%s: refused:\n%s", cases[_i].name, output);
  else
    ck_assert_msg(status != 0 && strstr(output, cases[_i].says) != NULL,
                  "%s: exit status %d, \"%s\" is not in:\n%s", cases[_i].name, status,
                  cases[_i].says, output);
  bwt_folder_remove(folder);
}
END_TEST

/* Errors say where in the template, as file:line. */
START_TEST(names_the_line) {
  char folder[PATH_MAX], output[1 << 14];
  bwt_folder_make(folder);
  int status = bwt_command(output, sizeof output,
                           "cat > '%s/t.m4' <<'END'\n%smacro(<|one|>, 1, <|\nret;|>)dnl\n\n"
                           "one()\nEND\nm4 -E -E -I ptx/lib '%s/t.m4'",
                           folder, prelude, folder);
  ck_assert_msg(status != 0 && strstr(output, "t.m4:5: error: one: argument 1 is empty") != NULL,
                "%s", output);
  bwt_folder_remove(folder);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("templates", refused, 0, (int)(sizeof cases / sizeof *cases), 20),
      BWT_TEST("templates", apostrophes_are_text, 20),
      BWT_TEST("templates", names_the_line, 20),
  };
  return bwt_suite_main("templates", tests, BWT_COUNT(tests));
}
