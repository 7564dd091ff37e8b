/* SPDX-License-Identifier: Apache-2.0
 *
 * Running of rule pairs; see rule_run.h.
 *
 * Each call works in a child process, since the emulated driver takes its architecture
 * and its devices from the environment when it starts, and a context that a report has
 * ended stays as it is.
 */
#include "harness/rule_run.h"

#include "harness/rule_rig.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- names -------------------------------------------------------------------------- */

bool rig_wrong(struct rig *r, const char *what, const char *name) {
  if (r->why[0] == '\0')
    snprintf(r->why, sizeof r->why, "%s: %s", name, what);
  return false;
}

struct named *rig_find(struct rig *r, const char *name) {
  for (unsigned i = r->names; i > 0; i--)
    if (strcmp(r->name[i - 1].name, name) == 0)
      return &r->name[i - 1];
  return NULL;
}

struct named *rig_add(struct rig *r, const char *name) {
  if (r->names == NAMES) {
    (void)rig_wrong(r, "too many names", name);
    return NULL;
  }
  struct named *n = &r->name[r->names++];
  *n = (struct named){0};
  snprintf(n->name, sizeof n->name, "%s", name);
  return n;
}

/* Keeps a failure of what the pair does; false: stop here. */
bool rig_call(struct rig *r, CUresult result) {
  if (result != CUDA_SUCCESS && r->result == CUDA_SUCCESS)
    r->result = result;
  return result == CUDA_SUCCESS;
}

/* A failure of what only prepares is a mistake in the pair. */
bool rig_prepare(struct rig *r, const char *what, CUresult result) {
  return result == CUDA_SUCCESS || rig_wrong(r, bwt_driver_error(&r->d, result), what);
}

bool rig_enter(struct rig *r, unsigned device) {
  if (device >= r->pair->devices)
    return rig_wrong(r, "no such device; \"devices:\" says how many there are", "device");
  return rig_prepare(r, "cuCtxSetCurrent", r->d.CtxSetCurrent(r->context[device]));
}

/* ---- launching ------------------------------------------------------------------------ */

/* "A+64": what the kernel gets, in value, or the map itself. */
static bool argument(struct rig *r, char *text, uint64_t *value, void **parameter) {
  char *plus = strchr(text, '+'), *end;
  uint64_t offset = 0;
  if (plus != NULL) {
    *plus = '\0';
    offset = strtoull(plus + 1, &end, 0);
    if (*end != '\0')
      return rig_wrong(r, "not a number after +", text);
  }
  *parameter = value;
  *value = strtoull(text, &end, 0);
  if (*text >= '0' && *text <= '9' && *end == '\0')
    return true;
  struct named *n = rig_find(r, text);
  if (n == NULL)
    return rig_wrong(r, "an argument that is no number and no name", text);
  if (n->address == 0)
    *parameter = &n->map;
  *value = n->address + offset;
  return true;
}

static bool do_launch(struct rig *r, const struct rule_step *s) {
  uint64_t values[16];
  void *parameters[16];
  char args[RULE_ARGS], *rest = NULL;
  unsigned count = 0;
  strcpy(args, s->args);
  for (char *a = strtok_r(args, ",", &rest); a != NULL; a = strtok_r(NULL, ",", &rest), count++)
    if (count == 16 || !argument(r, a, &values[count], &parameters[count]))
      return rig_wrong(r, "more than 16 arguments", s->name);
  CUfunction function;
  if (s->stream >= STREAMS)
    return rig_wrong(r, "streams are 0 to 3", s->name);
  if (!rig_enter(r, s->device) ||
      !rig_prepare(r, s->name, r->d.ModuleGetFunction(&function, r->module[s->device], s->name)))
    return false;
  CUlaunchAttribute attribute[2];
  memset(attribute, 0, sizeof attribute);
  unsigned attributes = 0;
  if (s->pdl) {
    attribute[attributes].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute[attributes++].value.programmaticStreamSerializationAllowed = 1;
  }
  if (s->cluster > 1) {
    attribute[attributes].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute[attributes].value.clusterDim.x = s->cluster;
    attribute[attributes].value.clusterDim.y = attribute[attributes].value.clusterDim.z = 1;
    attributes++;
  }
  const CUlaunchConfig config = {.gridDimX = s->grid,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = s->block,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .sharedMemBytes = s->shared,
                                 .hStream = r->stream[s->device][s->stream],
                                 .attrs = attribute,
                                 .numAttrs = attributes};
  return rig_call(r, r->d.LaunchKernelEx(&config, function, parameters, NULL));
}

static bool do_wait(struct rig *r) {
  for (unsigned i = 0; i < r->pair->devices; i++)
    if (!rig_enter(r, i) || !rig_call(r, r->d.CtxSynchronize()))
      return false;
  return true;
}

static bool do_step(struct rig *r, const struct rule_step *s) {
  switch (s->kind) {
  case RULE_memory:
    return rig_memory(r, s);
  case RULE_multicast:
    return rig_multicast(r, s);
  case RULE_map:
    return rig_map(r, s);
  case RULE_launch:
    return do_launch(r, s);
  case RULE_free:
    return rig_free(r, s);
  default:
    return do_wait(r);
  }
}

/* ---- the child ------------------------------------------------------------------------- */

static bool open_rig(struct rig *r, const char *program) {
  const char *problem = bwt_driver_open("emu", &r->d);
  if (problem != NULL)
    return rig_wrong(r, problem, "the emulated driver");
  if (!r->d.emulated) /* a real one may suffer from what the bad twins do */
    return rig_wrong(r, "is not the emulated one", "the driver");
#define X(name, symbol)                                                                            \
  r->name = (__typeof__(r->name))dlsym(r->d.library, #symbol);                                     \
  if (r->name == NULL)                                                                             \
    return rig_wrong(r, "missing", #symbol);
  MORE_CALLS(X)
#undef X
  unsigned devices = r->pair->devices;
  for (unsigned i = 0; i < devices; i++)
    if (!rig_prepare(r, "context", r->d.DevicePrimaryCtxRetain(&r->context[i], (CUdevice)i)))
      return false;
  for (unsigned i = 0; i < devices; i++) {
    if (!rig_enter(r, i))
      return false;
    for (unsigned k = 0; k < devices && !r->pair->strangers; k++)
      if (k != i && !rig_prepare(r, "peers", r->CtxEnablePeerAccess(r->context[k], 0)))
        return false;
    for (unsigned k = 0; k < STREAMS; k++)
      if (!rig_prepare(r, "stream", r->d.StreamCreate(&r->stream[i][k], CU_STREAM_NON_BLOCKING)))
        return false;
    if (!rig_prepare(r, "the program", r->d.ModuleLoadData(&r->module[i], program)))
      return false;
  }
  return true;
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL ? text : "";
}

static unsigned line_of(const json_t *object, const char *side) {
  return (unsigned)json_integer_value(json_object_get(json_object_get(object, side), "line"));
}

static void read_report(const char *path, struct rule_outcome *o) {
  FILE *file = fopen(path, "r");
  char *line = NULL;
  size_t room = 0;
  while (file != NULL && getline(&line, &room, file) > 0) {
    if (o->reports++ > 0)
      continue;
    json_t *report = json_loads(line, 0, NULL);
    snprintf(o->group, sizeof o->group, "%s", text_of(report, "group"));
    snprintf(o->rule, sizeof o->rule, "%s", text_of(report, "rule"));
    snprintf(o->message, sizeof o->message, "%s", text_of(report, "message"));
    o->line = line_of(report, "who");
    o->other = line_of(report, "other");
    json_decref(report);
  }
  free(line);
  if (file != NULL)
    fclose(file);
}

/* EMU_CHECKS: all groups but one. */
static void set_checks(const char *off) {
  static const char *const groups[] = {"bounds",   "undef", "race",    "proxy",  "tcgen05",
                                       "mbarrier", "pdl",   "cluster", "mailbox"};
  char list[128] = "";
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (strcmp(groups[i], off) != 0)
      snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? "," : "",
               groups[i]);
  setenv("EMU_CHECKS", list, 1);
}

static void child(const struct rule_pair *p, enum rule_twin twin, const uint64_t *seeds,
                  unsigned count, const char *report, struct rule_outcome *o, char *why,
                  size_t size) {
  static struct rig r;
  char text[32];
  r.pair = p;
  setenv("EMU_ARCH", p->arch, 1);
  bool bad = twin != RULE_good;
  set_checks(twin == RULE_bad_unchecked ? p->group : "");
  setenv("EMU_REPORT", report, 1);
  setenv("EMU_KEEP_GOING", twin == RULE_bad_going ? "1" : "0", 1);
  snprintf(text, sizeof text, "%u", p->devices);
  setenv("EMU_DEVICES", text, 1);
  if (bad && freopen("/dev/null", "w", stderr) == NULL)
    return;
  bool open = open_rig(&r, bad ? p->bad : p->good);
  int (*configure)(const char *, const char *) =
      open ? (int (*)(const char *, const char *))dlsym(r.d.library, "barewarp_emulated_configure")
           : NULL;
  for (unsigned i = 0; configure != NULL && i < count && o->reports == 0 && r.result == 0; i++) {
    o->seed = seeds[i];
    snprintf(text, sizeof text, "%llu", (unsigned long long)seeds[i]);
    if (!configure("seed", text))
      (void)rig_wrong(&r, "refused", "seed");
    bool ok = true;
    for (unsigned k = 0; k < p->steps && ok; k++)
      ok = do_step(&r, &p->step[k]);
    if (ok)
      (void)do_wait(&r);
    o->result = r.result;
    read_report(report, o);
    if (r.why[0] != '\0')
      break;
    rig_clean_up(&r);
  }
  snprintf(why, size, "%s", r.why);
}

bool bwt_rule_run(const struct rule_pair *p, enum rule_twin twin, const uint64_t *seeds,
                  unsigned count, struct rule_outcome *outcome, struct bwt_text *why) {
  struct {
    struct rule_outcome outcome;
    char why[256];
  } result = {0};
  const char *folder = getenv("TMPDIR");
  char report[PATH_MAX];
  snprintf(report, sizeof report, "%s/bw-rule-XXXXXX",
           folder != NULL && *folder != '\0' ? folder : "/tmp");
  int file = mkstemp(report), ends[2];
  if (file < 0 || pipe(ends) != 0) {
    bwt_say(why, "cannot make %s or a pipe", report);
    return false;
  }
  close(file);
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    child(p, twin, seeds, count, report, &result.outcome, result.why, sizeof result.why);
    _exit(write(ends[1], &result, sizeof result) == (ssize_t)sizeof result ? 0 : 1);
  }
  close(ends[1]);
  ssize_t got = pid > 0 ? read(ends[0], &result, sizeof result) : 0;
  close(ends[0]);
  int status = 0;
  bool ended = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
  unlink(report);
  *outcome = result.outcome;
  if (!ended || got != (ssize_t)sizeof result) {
    bwt_say(why, "the process died with status 0x%x", (unsigned)status);
    return false;
  }
  if (result.why[0] != '\0')
    bwt_say(why, "%s", result.why);
  return result.why[0] == '\0';
}
