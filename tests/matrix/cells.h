// Records the properties that a test proves. The test calls belongs_to() at its start, once per
// property. If it passes, they are written to its own file in the build directory, from which
// transport_matrix makes the table. A test that is skipped after the call records that it could not
// run here. In a sanitized program, a test also proves that its code is clean.
// Thread: the test thread.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <tuple>

#include "matrix/rows.h"
#include "sanitizers.h"

namespace mobula::matrix {

// Proven on real hardware, or on simulated GPUs.
enum class Proof : char { real = 'R', simulated = 'S' };

class Cells : public testing::EmptyTestEventListener {
 public:
  // The instance of this program.
  static Cells& instance() {
    static Cells* const made = [] {
      auto* const cells = new Cells;
      testing::UnitTest::GetInstance()->listeners().Append(cells);  // owns it
      return cells;
    }();
    return *made;
  }
  void add(Part part, Column column, Proof proof) {
    if (proved_.empty()) std::filesystem::remove(file());
    proved_.emplace(part, column, proof);
    if (internal::has_address_sanitizer) proved_.emplace(Part::address_sanitizer, column, proof);
    if (internal::has_thread_sanitizer) proved_.emplace(Part::thread_sanitizer, column, proof);
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    const bool skipped = test.result()->Skipped();
    if ((test.result()->Passed() || skipped) && !proved_.empty()) {
      std::filesystem::create_directories(file().parent_path());
      std::ofstream out(file());
      out << "of " << std::filesystem::read_symlink("/proc/self/exe").string() << "\n";
      for (const auto& [part, column, proof] : proved_) {
        out << row_of(part).name << " " << static_cast<int>(column) << " "
            << (skipped ? '?' : static_cast<char>(proof)) << "\n";
      }
    }
    proved_.clear();
  }

 private:
  static std::filesystem::path file() {
    const auto& test = *testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test.test_suite_name()) + "." + test.name();
    for (char& each : name) each = each == '/' ? '-' : each;
    return std::filesystem::path(MOBULA_BINARY_DIR) / "matrix" / program_invocation_short_name /
           name;
  }
  std::set<std::tuple<Part, Column, Proof>> proved_;  // by the running test
};

inline void belongs_to(Part part, Column column, Proof proof) {
  Cells::instance().add(part, column, proof);
}

}  // namespace mobula::matrix
