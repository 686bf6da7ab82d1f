// Memory whose end is followed by a page that cannot be accessed, and what a fault there means.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace emulator {

const int POISON = 0xff;  // makes NaN of every floating-point type, and -1 of every signed integer
const size_t ALIGNMENT = 16;  // kernels may use loads of this size where an address allows them

inline size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

const size_t GUARD = (size_t)4 << 30;  // bytes on each side that cannot be accessed: only addresses

// Poisoned pages between others that cannot be accessed.
struct Pages {
  char* start = nullptr;
  size_t size = 0;

  explicit Pages(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size = rounded(bytes, page);
    void* map = mmap(nullptr, size + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    start = (char*)map + GUARD;
    if (size && mprotect(start, size, PROT_READ | PROT_WRITE)) {
      munmap(map, size + 2 * GUARD);
      throw std::bad_alloc();
    }
  }
  Pages(Pages&& other) noexcept : start(other.start), size(other.size) { other.start = nullptr; }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (start) munmap(start - GUARD, size + 2 * GUARD);
  }
  char* end() const { return start + size; }
  void protect(bool only_reads) const {
    if (size && mprotect(start, size, only_reads ? PROT_READ : PROT_READ | PROT_WRITE)) throw std::bad_alloc();
  }
  bool holds(const void* address) const {
    return (const char*)address >= start - GUARD && (const char*)address < end() + GUARD;
  }
};

// A copy of some bytes that ends at a page that cannot be accessed, or at most ALIGNMENT - 1 bytes
// before one. Its address is as aligned as the original's.
struct GuardedCopy {
  char* original;
  size_t bytes;
  Pages pages;
  char* copy;

  GuardedCopy(char* from, size_t count) : original(from), bytes(count), pages(count + ALIGNMENT) {
    copy = pages.end() - bytes;
    copy -= ((uintptr_t)copy - (uintptr_t)original) % ALIGNMENT;
    std::memset(pages.start, POISON, copy - pages.start);
    std::memset(copy + bytes, POISON, pages.end() - copy - bytes);
    std::memcpy(copy, original, bytes);
  }
  void copy_back() const { std::memcpy(original, copy, bytes); }
  // Whether the bytes around the copy are unchanged.
  bool intact() const { return poisoned(pages.start, copy) && poisoned(copy + bytes, pages.end()); }
  static bool poisoned(const char* from, const char* to) {
    return std::all_of(from, to, [](char byte) { return (unsigned char)byte == POISON; });
  }
};

// Copies of the memory that the parameters of a launch point to; buffers that overlap share one. With
// `indirect` a parameter points to a pointer to it; kernels then get pointers to pointers to copies.
struct GuardedParameters {
  std::vector<GuardedCopy> copies, cells;
  std::vector<char*> values;
  std::vector<size_t> owners;  // of each parameter, its copy
  std::vector<void*> pointers;

  GuardedParameters(unsigned count, void* const* parameters, const size_t* extents, bool indirect) {
    std::vector<unsigned> order(count);
    for (unsigned i = 0; i < count; i++) {
      char* given = *(char**)parameters[i];
      order[i] = i, values.push_back(indirect ? *(char**)given : given);
      if (indirect) cells.emplace_back(given, sizeof(char*));
    }
    std::sort(order.begin(), order.end(), [&](unsigned a, unsigned b) { return values[a] < values[b]; });
    owners.resize(count);
    for (unsigned i = 0; i < count;) {
      char *start = values[order[i]], *end = start + extents[order[i]];
      unsigned next = i + 1;
      for (; next < count && values[order[next]] < end; next++)
        end = std::max(end, values[order[next]] + extents[order[next]]);
      copies.emplace_back(start, end - start);
      for (; i < next; i++) owners[order[i]] = copies.size() - 1;
    }
    for (unsigned i = 0; i < count; i++) values[i] = copies[owners[i]].copy + (values[i] - copies[owners[i]].original);
    for (GuardedCopy& cell : cells) {
      std::memcpy(cell.copy, &values[places.size()], sizeof(char*));
      cell.pages.protect(true);
      places.push_back(cell.copy);
    }
    for (char*& value : indirect ? places : values) pointers.push_back(&value);
  }
  void copy_back() const {
    for (const GuardedCopy& copy : copies) copy.copy_back();
  }
  // Copies the memory's present bytes.
  void renew() const {
    for (const GuardedCopy& copy : copies) std::memcpy(copy.copy, copy.original, copy.bytes);
  }
  void protect(bool only_reads) const {
    for (const GuardedCopy& copy : copies) copy.pages.protect(only_reads);
  }
  // The first parameter around which something was written, or their number.
  unsigned overwritten() const {
    unsigned i = 0;
    while (i < owners.size() && copies[owners[i]].intact()) i++;
    return i;
  }

 private:
  std::vector<char*> places;
};

}  // namespace emulator
