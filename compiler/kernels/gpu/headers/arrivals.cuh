// Arrivals: bytes that blocks of a cluster store in each other's shared memory, counted there by an mbarrier in phases.
// A phase ends when as many have arrived as one thread expects.

// Starts to count; before a cluster_sync.
__device__ __forceinline__ void begin_arrivals(uint64_t* arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrivals)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Expects so many bytes in this phase; they may have arrived.
__device__ __forceinline__ void expect_arrivals(uint64_t* arrivals, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrivals)), "r"(bytes)
               : "memory");
}

// Waits for the end of a phase, given by the parity of its number.
__device__ __forceinline__ void await_arrivals(uint64_t* arrivals, uint32_t parity) {
  uint32_t ended = 0;
  while (!ended)
    asm volatile(
        "{\n.reg .pred ended;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%1], %2;\n"
        "selp.u32 %0, 1, 0, ended;\n}"
        : "=r"(ended)
        : "r"(shared_address(arrivals)), "r"(parity)
        : "memory");
}

// Stores 16 bytes at the address of `own` in the shared memory of the cluster's block `rank`, and counts them there.
__device__ __forceinline__ void send_chunk(void* own, uint4 words, int rank, uint64_t* arrivals) {
  uint32_t address, counter;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counter) : "r"(shared_address(arrivals)), "r"(rank));
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   address),
               "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w), "r"(counter)
               : "memory");
}
