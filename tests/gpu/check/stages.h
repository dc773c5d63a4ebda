// The run on a GPU: its stages, in one table, and what each may use. A stage is a process of its own with a time
// limit; it writes what it has found as JSON lines. It says nothing about speed between GPUs: there is one.
#pragma once

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <string_view>

namespace mobula::internal::gpu_check {

using Json = nlohmann::ordered_json;

// What one stage writes to standard output, a line each.
class Findings {
 public:
  Findings(std::string stage, bool brief) : stage_(std::move(stage)), brief_(brief) {}

  bool brief() const { return brief_; }  // less of everything, to try the run itself
  void value(const std::string& what, const Json& value, const std::string& unit = "");
  // What people have to know of all the rest; no finding.
  void scope(const std::string& text);
  // One thing that has to hold; the stage has failed if one does not.
  void holds(const std::string& what, bool true_, const std::string& seen = "");
  // Nothing of it could be tried here: the stage ends as skipped if nothing else was found.
  void cannot(const std::string& why);
  int exit_code() const { return failed_ ? 1 : found_ ? 0 : skipped_; }

  static constexpr int skipped_ = 77;

 private:
  void line(Json line);
  std::string stage_;
  bool brief_;
  bool failed_ = false;
  bool found_ = false;
};

struct Stage {
  std::string_view name;
  int limit_s;                // in full; a brief run has the same
  std::string_view shows;     // for people
  void (*run)(Findings&);     // null: what it needs is not there yet
  std::string_view missing;   // then: what that is
};

std::span<const Stage> stages();

void look_at_machine(Findings& findings);
void share_memory(Findings& findings);
void nccl_between_hosts(Findings& findings);
void nccl_faults(Findings& findings);
void direct_beside_store(Findings& findings);
void tensors_between_hosts(Findings& findings);
void tensors_by_the_host(Findings& findings);
void serve_undisturbed(Findings& findings);
void exchange_with_torch(Findings& findings);
void keep_to_shares(Findings& findings);
void ask_probe(Findings& findings);
void look_at_mps(Findings& findings);

}  // namespace mobula::internal::gpu_check
