/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine: its configuration from the environment, its devices, its seeded numbers.
 */
#include "internal.h"

#include <errno.h>
#include <limits.h>

/* What the emulated devices claim, from the vendor's published tables for the real ones. */
static const struct model {
  const char *arch, *name;
  int major, minor;
  uint32_t nsm;
  uint64_t memory;
} models[] = {
    {"sm_100", "NVIDIA B200 (emulated)", 10, 0, 148, 180ull << 30},
    {"sm_103", "NVIDIA B300 (emulated)", 10, 3, 148, 270ull << 30},
    {"sm_90", "NVIDIA H200 (emulated)", 9, 0, 132, 141ull << 30},
};

static const struct {
  const char *name;
  enum check check;
} check_names[] = {
    {"bounds", CHECK_bounds}, {"undef", CHECK_undef},     {"race", CHECK_race},
    {"proxy", CHECK_proxy},   {"tcgen05", CHECK_tcgen05}, {"mbarrier", CHECK_mbarrier},
    {"pdl", CHECK_pdl},       {"cluster", CHECK_cluster}, {"mailbox", CHECK_mailbox},
};
#define NCHECKS (sizeof check_names / sizeof check_names[0])

/* Warp instructions between two ends of CTAs: 10 to 30 minutes. */
#define DEFAULT_LIMIT (1ull << 34)

void *emu_alloc(size_t size) {
  void *p = calloc(1, size ? size : 1);
  if (!p) {
    (void)fprintf(stderr, "emulated driver: out of memory (%zu bytes)\n", size);
    abort();
  }
  return p;
}

void *emu_grow(void *p, uint32_t n, uint32_t *capacity, size_t size) {
  if (n < *capacity)
    return p;
  uint32_t want = *capacity ? *capacity * 2 : 64;
  void *q = realloc(p, want * size);
  if (!q) {
    (void)fprintf(stderr, "emulated driver: out of memory (%zu bytes)\n", want * size);
    abort();
  }
  *capacity = want;
  return q;
}

/* ---- configuration ------------------------------------------------------------- */

static bool refused; /* some setting was bad */

/* A setting that cannot be understood must not be silently another one: there will be no
 * machine. */
static void bad_setting(const char *name, const char *value, const char *allowed) {
  (void)fprintf(stderr, "emulated driver: %s=%s: allowed: %s\n", name, value, allowed);
  refused = true;
}

static uint64_t number_setting(const char *name, uint64_t missing, uint64_t least, uint64_t most,
                               const char *allowed) {
  const char *text = getenv(name);
  if (!text || !*text)
    return missing;
  char *end;
  errno = 0;
  uint64_t v = strtoull(text, &end, 0);
  if (!errno && !*end && *text != '-' && v >= least && v <= most)
    return v;
  bad_setting(name, text, allowed);
  return missing;
}

/* "all", "none" or a list of group names; false: something else. */
static bool parse_checks(const char *text, uint32_t *out) {
  const uint32_t always = 1u << CHECK_progress;
  uint32_t all = always, set = always;
  for (size_t i = 0; i < NCHECKS; i++)
    all |= 1u << check_names[i].check;
  if (!strcmp(text, "all"))
    set = all;
  else if (strcmp(text, "none") != 0)
    for (const char *p = text; *p;) {
      size_t n = strcspn(p, ",");
      size_t i = 0;
      while (i < NCHECKS &&
             (strlen(check_names[i].name) != n || strncmp(check_names[i].name, p, n) != 0))
        i++;
      if (i == NCHECKS)
        return false;
      set |= 1u << check_names[i].check;
      p += n + (p[n] == ',');
    }
  *out = set;
  return true;
}

static uint32_t checks_setting(void) {
  const char *text = getenv("EMU_CHECKS");
  uint32_t set = 0;
  if (!parse_checks(text && *text ? text : "all", &set))
    bad_setting("EMU_CHECKS", text,
                "all, none, or a list of bounds, undef, race, proxy, tcgen05, mbarrier, pdl, "
                "cluster, mailbox");
  return set;
}

static const struct model *model_setting(void) {
  const char *text = getenv("EMU_ARCH");
  if (!text || !*text)
    return &models[0];
  for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
    if (!strcmp(models[i].arch, text))
      return &models[i];
  bad_setting("EMU_ARCH", text, "sm_100, sm_103, sm_90");
  return &models[0];
}

static bool flag_setting(const char *name) {
  const char *text = getenv(name);
  return text && *text && strcmp(text, "0") != 0;
}

/* ---- seeded numbers -------------------------------------------------------------- */

static uint64_t mix(uint64_t z) { /* the output function of splitmix64 */
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

uint64_t draw_stream(struct machine *m, unsigned stream) {
  return mix(m->s->stream[stream] += 0x9e3779b97f4a7c15ull);
}

static void reseed(struct machine *m) {
  for (unsigned i = 0; i < STREAM_count; i++)
    m->s->stream[i] = mix(mix(m->seed) + i);
}

uint64_t draw(struct machine *m, enum latency purpose) {
  return draw_stream(m, (unsigned)purpose);
}

/* ---- the machine ------------------------------------------------------------------ */

static void device_init(struct machine *m, struct device *d, int ordinal, const struct model *model,
                        uint32_t nsm) {
  *d = (struct device){.m = m,
                       .ordinal = ordinal,
                       .cc_major = model->major,
                       .cc_minor = model->minor,
                       .nsm = nsm,
                       .max_threads_sm = 2048,
                       .max_ctas_sm = 32,
                       .shared_sm = 228 * 1024,
                       .shared_optin = 227 * 1024,
                       .registers_sm = 65536,
                       .name = model->name,
                       .memory = model->memory};
  d->sm = emu_alloc(d->nsm * sizeof *d->sm);
  /* Each device has a range of addresses of its own, above the generic windows and below
   * those of the process, which pinned host memory keeps. */
  d->next_address = 0x0000400000000000ull + ((uint64_t)ordinal << 40);
  units_device_init(d);
}

static void machine_free(struct machine *m) {
  for (uint32_t i = 0; i < m->ndev; i++)
    free(m->dev[i].sm);
  if (m->s->json)
    (void)fclose(m->s->json);
  free(m->dev);
  free(m->s);
  free(m);
}

struct machine *machine_get(void) {
  static struct machine *machine;
  if (machine)
    return machine;
  refused = false;
  struct machine *m = emu_alloc(sizeof *m);
  m->s = emu_alloc(sizeof *m->s);
  m->seed = number_setting("EMU_SEED", 1, 0, UINT64_MAX, "a number below 2^64");
  reseed(m);
  m->checks = checks_setting();
  m->keep_going = flag_setting("EMU_KEEP_GOING");
  m->s->trace = flag_setting("EMU_TRACE");
  m->s->grids_end = &m->s->grids;
  m->s->next_due = UINT64_MAX;
  m->patience = (uint32_t)number_setting("EMU_PATIENCE", 10, 1, 3600, "1 to 3600 seconds");
  m->limit = number_setting("EMU_LIMIT", DEFAULT_LIMIT, 0, UINT64_MAX, "a number below 2^64");
  m->ndev = (uint32_t)number_setting("EMU_DEVICES", 1, 1, 16, "1 to 16");
  m->dev = emu_alloc(m->ndev * sizeof *m->dev);
  const struct model *model = model_setting();
  uint32_t sms = (uint32_t)number_setting("EMU_SMS", model->nsm, 1, model->nsm,
                                          "1 to the number that the device has");
  for (uint32_t i = 0; i < m->ndev; i++)
    device_init(m, &m->dev[i], (int)i, model, sms);
  const char *file = getenv("EMU_REPORT");
  if (file && *file) {
    m->s->json = fopen(file, "a");
    if (!m->s->json)
      bad_setting("EMU_REPORT", file, "a file that can be written");
  }
  if (refused) {
    machine_free(m);
    return NULL;
  }
  machine = m;
  return m;
}

bool machine_configure(struct machine *m, const char *key, const char *value) {
  char *end;
  errno = 0;
  uint64_t number = strtoull(value, &end, 0);
  bool is_number = *value && *value != '-' && !*end && !errno;
  if (!strcmp(key, "seed") && is_number) {
    m->seed = number;
    reseed(m);
    return true;
  }
  if (!strcmp(key, "limit") && is_number) {
    m->limit = number;
    return true;
  }
  if (!strcmp(key, "checks"))
    return parse_checks(value, &m->checks);
  if (!strcmp(key, "keep_going") && is_number && number < 2) {
    m->keep_going = number;
    return true;
  }
  if (!strcmp(key, "trace") && is_number && number < 2) {
    m->s->trace = number;
    return true;
  }
  if (!strcmp(key, "report")) {
    FILE *f = *value ? fopen(value, "a") : NULL;
    if (*value && !f)
      return false;
    if (m->s->json)
      (void)fclose(m->s->json);
    m->s->json = f;
    return true;
  }
  return false;
}

uint64_t machine_event_orders(const struct machine *m) {
  return m->s->orders_n;
}

uint64_t machine_early_starts(const struct machine *m) {
  return m->s->early_starts;
}
