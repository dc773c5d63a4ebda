// Runs the suite, and prints which rows of the matrix passed with which transport.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "transport/direct/conformance.h"

namespace mobula::internal::direct_test {
namespace {

class Matrix : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override { row_.clear(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (row_.empty() || test.result()->Skipped()) return;
    const std::string way = test.name();
    std::string& cell = cells_[row_][way.substr(way.rfind('/') + 1)];
    if (cell != "FAILED") cell = test.result()->Passed() ? "passed" : "FAILED";
  }
  void OnTestProgramEnd(const testing::UnitTest&) override {
    if (cells_.size() < 2) return;
    auto ways = ways_from(Way::inproc);
    ways.push_back(Way::nccl);
    fmt::print("| behaviour |");
    for (const Way way : ways) fmt::print(" {} |", name_of(way));
    fmt::print("\n| --- |");
    for (std::size_t i = 0; i < ways.size(); ++i) fmt::print(" --- |");
    fmt::print("\n");
    for (const auto& [row, of_ways] : cells_) {
      fmt::print("| {} |", row);
      for (const Way way : ways) {
        const auto at = of_ways.find(name_of(way));
        fmt::print(" {} |", at == of_ways.end() ? "–" : at->second);
      }
      fmt::print("\n");
    }
  }
  std::string row_;

 private:
  std::map<std::string, std::map<std::string, std::string>> cells_;
};

Matrix* matrix = nullptr;

}  // namespace

std::vector<Way> ways_from(Way first) {
  std::vector<Way> found;
  for (const Way way : {Way::inproc, Way::shm, Way::tcp, Way::carried, Way::gloo, Way::ucx}) {
    const bool there = !is_plugged(way) || std::filesystem::exists(plugin_of(way));
    if (way >= first && there) found.push_back(way);
  }
  if (first <= Way::shm) found.push_back(Way::cuda_ipc);  // the other way that is no network
  return found;
}

void belongs_to(const char* row) {
  if (matrix != nullptr) matrix->row_ = row;
}

}  // namespace mobula::internal::direct_test

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  using namespace mobula::internal::direct_test;
  matrix = new Matrix;
  testing::UnitTest::GetInstance()->listeners().Append(matrix);  // owns it
  return RUN_ALL_TESTS();
}
