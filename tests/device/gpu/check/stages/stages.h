// The stages of the run on a GPU: one table in order of value, and the findings that a stage
// records. A stage runs in its own process with a time limit and writes its findings as JSON lines.
// Thread: owner. Not: speed between GPUs; the machine has one.
#pragma once

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <string_view>

#include "base/time.h"

namespace mobula::internal::gpu_check {

using Json = nlohmann::ordered_json;

// Findings of one stage, each written to standard output as one line.
class Findings {
 public:
  Findings(std::string stage, bool brief, Duration limit);

  bool brief() const { return brief_; }  // the short form: small sizes, few repetitions
  // Time until the stage reaches its limit; never negative.
  Duration left() const;
  // Records a figure or a text. It does not make the stage pass if cannot() was called.
  void value(const std::string& what, const Json& value, const std::string& unit = "");
  // Records a remark about the other findings.
  void scope(const std::string& text);
  // Records a check. A check that does not hold makes the stage fail.
  void holds(const std::string& what, bool true_, const std::string& seen = "");
  // Records a reason why a part was not tried. The stage is then skipped, unless some check was
  // recorded.
  void cannot(const std::string& why);
  // 1: a check does not hold; skipped: cannot() was called and no check was recorded; 0 otherwise.
  int exit_code() const { return failed_ ? 1 : cannot_ && !checked_ ? skipped : 0; }

  static constexpr int skipped = 77;

 private:
  void line(Json line);
  std::string stage_;
  bool brief_;
  Time until_;
  bool failed_ = false;
  bool checked_ = false;
  bool cannot_ = false;
};

struct Stage {
  std::string_view name;
  int limit_s;
  std::string_view shows;  // noun phrase for the page
  void (*run)(Findings&);
};

// In order of value. The experiments of the short run come first, the others follow.
std::span<const Stage> stages();

void inspect_machine(Findings& findings);
void run_probe(Findings& findings);
void run_cluster(Findings& findings);
void share_gpu_in_cluster(Findings& findings);
void share_memory(Findings& findings);
void tensors_between_hosts(Findings& findings);
void tensors_by_the_host(Findings& findings);
void inspect_interception(Findings& findings);
void measure_released_memory(Findings& findings);
void run_under_mps(Findings& findings);
void exchange_with_torch(Findings& findings);
void divide_time(Findings& findings);
void keep_to_shares(Findings& findings);
void compare_copy_paths(Findings& findings);
void serve_undisturbed(Findings& findings);
void nccl_between_hosts(Findings& findings);
void nccl_on_one_host(Findings& findings);
void nccl_faults(Findings& findings);

}  // namespace mobula::internal::gpu_check
