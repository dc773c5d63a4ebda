// Findings of gpu_check_driver as JSON lines on standard output, which the stage records.
// Thread: owner.
#pragma once

#include <time.h>

#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>

namespace mobula::internal::gpu_check {

inline std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') made += '\\';
    made += static_cast<unsigned char>(each) < 0x20 ? ' ' : each;
  }
  return made + "\"";
}
inline void print_line(const std::string& line) { std::cout << line << std::endl; }
inline void holds(const std::string& what, bool true_, const std::string& seen = {}) {
  print_line("{\"what\":" + quoted(what) + ",\"holds\":" + (true_ ? "true" : "false") +
             ",\"seen\":" + quoted(seen) + "}");
}
inline void value(const std::string& what, double number, const std::string& unit) {
  std::ostringstream text;
  text << number;
  print_line("{\"what\":" + quoted(what) + ",\"value\":" + text.str() +
             ",\"unit\":" + quoted(unit) + "}");
}
inline void text_value(const std::string& what, const std::string& text) {
  print_line("{\"what\":" + quoted(what) + ",\"value\":" + quoted(text) + "}");
}

inline std::int64_t clock_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}
inline std::int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

}  // namespace mobula::internal::gpu_check
