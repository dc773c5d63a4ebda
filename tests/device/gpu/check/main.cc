// The program of the run on a GPU: runs the stages, renders pages and the index, and compares
// records. Exit codes: 0 passed; 1 a stage failed, or records differ; 2 wrong use; 3 no stage
// passed; 128 + N ended by signal N.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "device/gpu/check/peers.h"
#include "device/gpu/check/records.h"
#include "device/gpu/check/runner.h"

namespace mobula::internal::gpu_check {
namespace {

constexpr const char* usage =
    "usage: mobula-gpu-check --results DIR [--budget SECONDS] [--short] [--only A,B] [--limit "
    "SECONDS]\n"
    "       mobula-gpu-check --render FILE | --index DIR | --compare FILE FILE | --list\n";

int compare(const std::string& first, const std::string& second) {
  const auto a = read_records(first), b = read_records(second);
  if (!a || !b) {
    fmt::print(stderr, "{}\n", (a ? b : a).error().text);
    return 2;
  }
  const auto lines = differences(*a, *b);
  for (const auto& line : lines) fmt::print("{}\n", line);
  return lines.empty() ? 0 : 1;
}

int wrong_use() {
  fmt::print(stderr, "{}", usage);
  return 2;
}

class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {}
  bool has(const char* word) const { return std::ranges::find(words_, word) != words_.end(); }
  // The word that follows, or a later one; empty if the words end before it.
  std::string after(const char* word, std::size_t by = 1) const {
    const auto at = std::ranges::find(words_, word);
    return static_cast<std::size_t>(words_.end() - at) > by
               ? *(at + static_cast<std::ptrdiff_t>(by))
               : std::string();
  }

 private:
  std::vector<std::string> words_;
};

int run(const Words& words) {
  RunOptions options{.results = words.after("--results"), .brief = words.has("--short")};
  if (words.has("--budget")) options.budget_s = std::atof(words.after("--budget").c_str());
  if (words.has("--limit")) options.limit_s = std::atoi(words.after("--limit").c_str());
  std::istringstream names(words.after("--only"));
  for (std::string name; std::getline(names, name, ',');) options.only.push_back(name);
  const bool wrong =
      options.budget_s <= 0 || options.limit_s < 0 || (words.has("--only") && options.only.empty());
  return wrong ? wrong_use() : run_stages(options);
}

int main_of_check(std::vector<std::string> arguments) {
  const Words words(std::move(arguments));
  ::signal(SIGPIPE, SIG_IGN);
  if (words.has("--peer")) return be_peer();
  if (words.has("--list")) {
    for (const Stage& each : stages())
      fmt::print("{:<20} {:>4} s  {}\n", each.name, each.limit_s, each.shows);
    return 0;
  }
  if (words.has("--render")) {
    const auto records = read_records(words.after("--render"));
    if (!records) return wrong_use();
    fmt::print("{}", page_of(*records));
    return 0;
  }
  if (words.has("--index") && !words.after("--index").empty()) {
    const std::string directory = words.after("--index");
    return write_page(directory + "/README.md", index_of(read_runs(directory))) ? 0 : 2;
  }
  if (words.has("--compare") && !words.after("--compare", 2).empty()) {
    return compare(words.after("--compare"), words.after("--compare", 2));
  }
  return words.after("--results").empty() ? wrong_use() : run(words);
}

}  // namespace
}  // namespace mobula::internal::gpu_check

int main(int count, char** words) {
  return mobula::internal::gpu_check::main_of_check({words + 1, words + count});
}
