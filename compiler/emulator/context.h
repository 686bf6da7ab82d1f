// Switching between stacks: by hand on x86-64 and AArch64, else by ucontext.
#pragma once
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

// A stack that is not running. On `switch_to` it goes on where it was left.
struct Context {
  void* top = nullptr;  // its registers lie there, or its ucontext_t
  const void* bottom = nullptr;
  size_t size = 0;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
#endif
};

#if defined(__x86_64__)
extern "C" void emulator_switch(void** save, void* load);
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch, .-emulator_switch
)");
inline void prepare(Context& context, void (*entry)()) {
  void** top = (void**)((uintptr_t)((char*)context.bottom + context.size) & ~(uintptr_t)63) - 8;
  for (int i = 0; i < 8; i++) top[i] = nullptr;
  top[6] = (void*)entry;
  context.top = top;
}
#elif defined(__aarch64__)
extern "C" void emulator_switch(void** save, void* load);
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size emulator_switch, .-emulator_switch
)");
inline void prepare(Context& context, void (*entry)()) {
  void** top = (void**)((uintptr_t)((char*)context.bottom + context.size) & ~(uintptr_t)63) - 20;
  for (int i = 0; i < 20; i++) top[i] = nullptr;
  top[11] = (void*)entry;
  context.top = top;
}
#else
#define EMULATOR_UCONTEXT
#include <ucontext.h>
inline void emulator_switch(void** save, void* load) {
  ucontext_t here;
  *save = &here;
  swapcontext(&here, (ucontext_t*)load);
}
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

// Leaves the running stack as `from` and goes on with `to`.
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

// Says, at the start of a new stack, where it came from.
inline void arrived(Context& from) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &from.bottom, &from.size);
#else
  (void)from;
#endif
}

}  // namespace emulator
