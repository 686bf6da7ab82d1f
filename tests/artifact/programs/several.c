/* Several models in one process, opened by dlopen; arguments: a library and weights for each. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "flowloom/model.h"

/* A function of a library: C has no cast from objects to functions. */
#define FUNCTION(library, name)                     \
  do {                                              \
    void* found = dlsym(library, "flowloom_" #name); \
    memcpy(&name, &found, sizeof found);            \
  } while (0)

int main(int count, char** arguments) {
  flowloom_model* models[8];
  int (*runs[8])(flowloom_model*, const void* const*, void* const*);
  static float x[800], y[800], image[1400], row[8];
  const void* inputs[] = {x, y};
  void* outputs[] = {image, row};
  int i, models_count = (count - 1) / 2;
  for (i = 0; i < 800; i++) x[i] = y[i] = (float)(i % 7);
  for (i = 0; i < models_count; i++) {
    void* library = dlopen(arguments[1 + 2 * i], RTLD_NOW | RTLD_LOCAL);
    int (*check_interface)(int);
    int (*create)(flowloom_model**, const flowloom_options*);
    flowloom_options (*default_options)(const char*);
    const char* (*error)(void);
    flowloom_options options;
    if (library == NULL) return printf("%s\n", dlerror()), 1;
    FUNCTION(library, check_interface);
    FUNCTION(library, create);
    FUNCTION(library, default_options);
    FUNCTION(library, error);
    if (check_interface(FLOWLOOM_INTERFACE) != 0) return printf("%s\n", error()), 1;
    options = default_options(arguments[2 + 2 * i]);
    if (create(&models[i], &options) != 0) return printf("%s\n", error()), 1;
    void* found = dlsym(library, "flowloom_run_host");
    memcpy(&runs[i], &found, sizeof found);
  }
  for (i = 0; i < 2 * models_count; i++) {
    if (runs[i % models_count](models[i % models_count], inputs, outputs) != 0) return 1;
    printf("%d %.6g %.6g\n", i % models_count, row[0], image[0]);
  }
  return 0;
}
