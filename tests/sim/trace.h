// Records a history as a hash, equal in every build, and optionally as human-readable lines.
// Thread: the simulator's only thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/time.h"

namespace mobula::internal::sim {

class Trace {
 public:
  // `out` null: no lines.
  explicit Trace(std::FILE* out) : out_(out) {}

  // Adds one input of a role to the hash. `bytes` is the content of the input.
  void fold(Time now, std::uint64_t role, std::string_view what, std::span<const std::byte> bytes) {
    word(static_cast<std::uint64_t>(now.ns()));
    word(role);
    hash_ = fnv1a(what, hash_);
    hash_ = fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, hash_);
  }
  void fold(Time now, std::uint64_t role, std::string_view what, std::uint64_t number) {
    fold(now, role, what, std::span<const std::byte>());
    word(number);
  }

  bool printing() const { return out_ != nullptr; }
  // Prints a line. `text()` returns it and is called only if lines are printed.
  template <class Text>
  void line(Time now, std::string_view role, Text&& text) {
    if (out_ == nullptr) return;
    const std::string made = text();
    std::fprintf(out_, "%12.6f %-12.*s %s\n", static_cast<double>(now.ns() - 1'000'000'000) * 1e-9,
                 static_cast<int>(role.size()), role.data(), made.c_str());
  }

  std::uint64_t hash() const { return hash_; }

 private:
  void word(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) {
      hash_ ^= (value >> (8 * i)) & 255;
      hash_ *= 0x100000001b3ULL;
    }
  }

  std::FILE* out_;
  std::uint64_t hash_ = fnv_origin;
};

}  // namespace mobula::internal::sim
