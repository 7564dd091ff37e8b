/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports: text on stderr, JSON lines in the file named by EMU_REPORT, a record for the
 * tests; and the end of the launch, unless EMU_KEEP_GOING is set.
 */
#include "internal.h"

#include <stdarg.h>

static const char *const group_names[] = {"?",       "bounds",  "undef",    "race",
                                          "proxy",   "tcgen05", "mbarrier", "pdl",
                                          "cluster", "mailbox", "progress"};
/* After this many, repeats of a rule at an instruction are only counted. */
#define SAME_SHOWN 4
#define TEXT_SIZE  12288

bool check_on(const struct machine *m, enum check c) {
  return m->checks >> c & 1;
}

uint64_t report_count(const struct machine *m) {
  return m->s->reports;
}

const struct report_record *report_at(const struct machine *m, uint64_t i) {
  return i < m->s->reports && i < sizeof m->s->record / sizeof m->s->record[0] ? &m->s->record[i]
                                                                               : NULL;
}

/* ---- text -------------------------------------------------------------------------- */

static const char *const space_names[] = {"generic", "global", "shared", "shared::cluster",
                                          "local",   "param",  "const",  "tmem"};

static void add(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(char *text, const char *fmt, ...) {
  size_t n = strlen(text);
  va_list ap;
  va_start(ap, fmt);
  (void)vsnprintf(text + n, TEXT_SIZE - n, fmt, ap);
  va_end(ap);
}

void access_thread(const struct access *a, uint32_t tid[3]) {
  uint32_t linear = a->warp * WARP + a->lane;
  const uint32_t *block = a->grid->block;
  tid[0] = linear % block[0];
  tid[1] = linear / block[0] % block[1];
  tid[2] = linear / block[0] / block[1];
}

static void add_side(char *text, const char *title, const struct access *a) {
  if (!a->insn || !a->grid) {
    add(text, "  %s: the host\n", title);
    return;
  }
  uint32_t tid[3];
  access_thread(a, tid);
  add(text, "  %s: %s line %u: %s\n", title, a->grid->fn->name, a->insn->line, a->insn->text);
  add(text, "      launch %llu, device %d", (unsigned long long)a->grid->id, a->dev->ordinal);
  if (a->cta) {
    const uint32_t *c = a->cta->ctaid;
    add(text, ", CTA (%u,%u,%u)", c[0], c[1], c[2]);
    if (a->cta->cluster->size > 1)
      add(text, " rank %u of %u", a->cta->rank, a->cta->cluster->size);
    add(text, ", thread (%u,%u,%u), warp %u lane %u", tid[0], tid[1], tid[2], a->warp, a->lane);
  }
  add(text, "%s\n", a->engine ? ", performed by an asynchronous engine" : "");
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void json_string(FILE *f, const char *s) {
  (void)fputc('"', f);
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      (void)fprintf(f, "\\%c", c);
    else if (c < 0x20)
      (void)fprintf(f, "\\u%04x", c);
    else
      (void)fputc(c, f);
  }
  (void)fputc('"', f);
}

static void json_side(FILE *f, const char *key, const struct access *a) {
  (void)fprintf(f, ",\"%s\":", key);
  if (!a) {
    (void)fputs("null", f);
    return;
  }
  if (!a->insn || !a->grid) {
    (void)fputs("{\"host\":true}", f);
    return;
  }
  (void)fputs("{\"kernel\":", f);
  json_string(f, a->grid->fn->name);
  (void)fprintf(f, ",\"line\":%u,\"text\":", a->insn->line);
  json_string(f, a->insn->text);
  (void)fprintf(f, ",\"launch\":%llu,\"device\":%d", (unsigned long long)a->grid->id,
                a->dev->ordinal);
  if (a->cta) {
    uint32_t tid[3];
    access_thread(a, tid);
    (void)fprintf(f,
                  ",\"cta\":[%u,%u,%u],\"rank\":%u,\"thread\":[%u,%u,%u],\"warp\":%u,\"lane\":%u",
                  a->cta->ctaid[0], a->cta->ctaid[1], a->cta->ctaid[2], a->cta->rank, tid[0],
                  tid[1], tid[2], a->warp, a->lane);
  }
  (void)fprintf(f, ",\"engine\":%s}", a->engine ? "true" : "false");
}

static void json_line(FILE *f, const struct report *r) {
  (void)fprintf(f, "{\"check\":%d,\"group\":\"%s\",\"rule\":", r->check, group_names[r->check]);
  json_string(f, r->rule);
  (void)fputs(",\"message\":", f);
  json_string(f, r->text);
  if (r->has_address)
    (void)fprintf(f, ",\"space\":\"%s\",\"address\":\"0x%llx\"", space_names[r->space],
                  (unsigned long long)r->address);
  json_side(f, "who", r->who);
  json_side(f, "other", r->other);
  (void)fputs("}\n", f);
  (void)fflush(f);
}

/* ---- reporting ------------------------------------------------------------------------- */

static unsigned same_before(const struct engine_state *s, const struct report *r) {
  unsigned n = 0;
  uint32_t line = r->who && r->who->insn ? r->who->insn->line : 0;
  const uint64_t kept = sizeof s->record / sizeof s->record[0];
  for (uint64_t i = 0; i < s->reports && i < kept; i++)
    n += s->record[i].line == line && !strcmp(s->record[i].rule, r->rule);
  return n;
}

void report_publish(struct machine *m, const struct report *r) {
  struct engine_state *s = m->s;
  char text[TEXT_SIZE] = "";
  add(text, "emulated driver: %s [%s]: %s\n", r->rule, group_names[r->check], r->text);
  if (r->has_address)
    add(text, "  address: %s 0x%llx\n", space_names[r->space], (unsigned long long)r->address);
  if (r->who)
    add_side(text, "at", r->who);
  if (r->other)
    add_side(text, "other", r->other);
  unsigned same = same_before(s, r);
  if (same < SAME_SHOWN) {
    (void)fputs(text, stderr);
    if (same + 1 == SAME_SHOWN)
      (void)fputs("  (further reports of this rule at this line are only counted)\n", stderr);
    if (s->json)
      json_line(s->json, r);
  }
  if (s->reports < sizeof s->record / sizeof s->record[0]) {
    struct report_record *q = &s->record[s->reports];
    q->check = r->check;
    q->rule = r->rule;
    if (r->who && r->who->grid) {
      (void)snprintf(q->kernel, sizeof q->kernel, "%s", r->who->grid->fn->name);
      q->grid_id = r->who->grid->id;
    }
    q->line = r->who && r->who->insn ? r->who->insn->line : 0;
    q->text = strdup(text);
  }
  s->reports++;
}

/* An undefined value may be one that was not waited for: says so. */
static bool not_waited_for(struct report *r, struct warp *w, const struct opd *o) {
  const char *what = NULL;
  if (o->kind == OPD_reg && (what = units_pending_register(w, (uint32_t)o->reg, &r->other))) {
    size_t n = strlen(r->text);
    (void)snprintf(r->text + n, sizeof r->text - n,
                   ": %s is the result of an asynchronous instruction, and no %s has come",
                   w->fn->reg_name ? w->fn->reg_name[o->reg] : "the register", what);
    return true;
  }
  if (o->kind == OPD_vec || o->kind == OPD_addr)
    for (unsigned i = 0; i < o->n; i++)
      if (not_waited_for(r, w, &o->elem[i]))
        return true;
  return false;
}

static void explain_undefined(struct report *r) {
  const struct access *a = r->who;
  if (r->check != CHECK_undef || r->other || !a || !a->insn || !a->cta || a->engine ||
      !a->cta->warp[a->warp].r)
    return;
  for (unsigned i = 0; i < a->insn->nopd; i++)
    if (not_waited_for(r, &a->cta->warp[a->warp], &a->insn->opd[i]))
      return;
}

bool report(struct machine *m, struct report *r) {
  if (!check_on(m, r->check))
    return false;
  explain_undefined(r);
  report_publish(m, r);
  if (m->keep_going && r->check != CHECK_progress)
    return false;
  if (r->who && r->who->grid)
    grid_fail(r->who->grid);
  return true;
}

bool fault(const struct access *who, enum check c, const char *rule, const char *fmt, ...) {
  if (!check_on(who->m, c))
    return false;
  struct report r = {.check = c, .rule = rule, .who = who};
  va_list ap;
  va_start(ap, fmt);
  (void)vsnprintf(r.text, sizeof r.text, fmt, ap);
  va_end(ap);
  return report(who->m, &r);
}
