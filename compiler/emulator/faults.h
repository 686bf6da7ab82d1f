// Turns the faults of emulated kernels (bad addresses, division by zero) into errors of their launch.
#pragma once
#include <signal.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace emulator {

const size_t SIGNAL_STACK = 64 << 10;

// Where to continue after a fault, if a kernel caused it; `address` is null where it is unknown.
bool redirect(const void* address, const char* verb, void (*&function)(), char*& stack);

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(__SANITIZE_ADDRESS__)

// The stack on which a thread handles its faults, as the overflow of its own may be the fault.
struct SignalStack {
  stack_t before;
  explicit SignalStack(char* memory) {
    stack_t own{};
    own.ss_sp = memory, own.ss_size = SIGNAL_STACK;
    sigaltstack(&own, &before);
  }
  ~SignalStack() { sigaltstack(&before, nullptr); }
};

const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE};
inline struct sigaction previous[3];

inline void pass_on(int signal, siginfo_t* info, void* context) {
  for (int i = 0; i < 3; i++) {
    if (FAULTS[i] != signal) continue;
    if (previous[i].sa_flags & SA_SIGINFO) return previous[i].sa_sigaction(signal, info, context);
    if (previous[i].sa_handler != SIG_DFL && previous[i].sa_handler != SIG_IGN) return previous[i].sa_handler(signal);
    sigaction(signal, &previous[i], nullptr);
  }
}

inline void on_fault(int signal, siginfo_t* info, void* context) {
  auto& machine = ((ucontext_t*)context)->uc_mcontext;
  const char* verb = signal == SIGFPE ? "divides an integer by zero" : "accesses";
  void (*function)();
#if defined(__x86_64__)
  if (signal == SIGSEGV) verb = machine.gregs[REG_ERR] & 2 ? "writes" : "reads";
  char* stack = (char*)machine.gregs[REG_RSP] - 512;
  if (!redirect(signal == SIGFPE ? nullptr : info->si_addr, verb, function, stack)) return pass_on(signal, info, context);
  machine.gregs[REG_RSP] = (greg_t)(((uintptr_t)stack & ~(uintptr_t)15) - 8);
  machine.gregs[REG_RIP] = (greg_t)function;
#else
  char* stack = (char*)machine.sp - 512;
  if (!redirect(signal == SIGFPE ? nullptr : info->si_addr, verb, function, stack)) return pass_on(signal, info, context);
  machine.sp = (uintptr_t)stack & ~(uintptr_t)15;
  machine.pc = (uintptr_t)function;
#endif
}

// Handles faults while it lives; one at a time.
struct FaultHandlers {
  FaultHandlers() {
    struct sigaction own {};
    own.sa_sigaction = on_fault;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < 3; i++) sigaction(FAULTS[i], &own, &previous[i]);
  }
  ~FaultHandlers() {
    for (int i = 0; i < 3; i++) sigaction(FAULTS[i], &previous[i], nullptr);
  }
};

#else
struct SignalStack { explicit SignalStack(char*) {} };
struct FaultHandlers { FaultHandlers() {} };
#endif

}  // namespace emulator
