// Switching between stacks: by hand on x86-64 and AArch64, else by ucontext.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

// A suspended stack. `switch_to` resumes it.
struct Context {
  void* top = nullptr;  // where its registers are saved, or its ucontext_t
  const void* bottom = nullptr;
  size_t size = 0;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
#endif
};

// Saves the registers on the running stack, their address in `save`, and resumes another.
extern "C" void emulator_switch(void** save, void* load);

#if defined(__x86_64__)
inline void prepare(Context& context, void (*entry)()) {
  void** top = (void**)((uintptr_t)((char*)context.bottom + context.size) & ~(uintptr_t)63) - 8;
  for (int i = 0; i < 8; i++) top[i] = nullptr;
  top[6] = (void*)entry;
  context.top = top;
}
#elif defined(__aarch64__)
inline void prepare(Context& context, void (*entry)()) {
  void** top = (void**)((uintptr_t)((char*)context.bottom + context.size) & ~(uintptr_t)63) - 20;
  for (int i = 0; i < 20; i++) top[i] = nullptr;
  top[11] = (void*)entry;
  context.top = top;
}
#else
inline void prepare(Context& context, void (*entry)()) {
  ucontext_t* first = (ucontext_t*)context.bottom;
  getcontext(first);
  first->uc_stack.ss_sp = first + 1;
  first->uc_stack.ss_size = context.size - sizeof *first;
  first->uc_link = nullptr;
  makecontext(first, entry, 0);
  context.top = first;
}
#endif

// Suspends the running stack as `from` and resumes `to`.
inline void switch_to(Context& from, Context& to, bool ends = false) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake, to.bottom, to.size);
  emulator_switch(&from.top, to.top);
  __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#else
  (void)ends;
  emulator_switch(&from.top, to.top);
#endif
}

// Called first on a new stack: takes note of the one that it came from.
inline void arrived(Context& from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &from.bottom, &from.size);
#else
  (void)from;
#endif
}

}  // namespace emulator
