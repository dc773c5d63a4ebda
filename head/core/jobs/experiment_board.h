// Progress of Tune experiments: the latest report of each, as its driver sent it. Reports are
// bounded in size and number, and are lost with the head.
// Thread: owner (one HeadCore). Errors: invalid_argument for a malformed report. Not: decisions
// about trials. The driver makes them and stores them in the experiment's file.
#pragma once

#include <cstddef>
#include <list>
#include <string>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal::head {

struct HeadTables;

class ExperimentBoard {
 public:
  static constexpr std::size_t max_experiments = 50;
  static constexpr std::size_t max_report_bytes = 64 << 10;
  static constexpr Duration silence_limit = std::chrono::seconds(60);

  explicit ExperimentBoard(HeadTables& tables) : tables_(tables) {}

  // Takes a report of a driver of `job`, a JSON object, and returns a document without members.
  // Unknown and malformed members are ignored. The oldest report gives way to a new experiment.
  Result<std::string> report(JobId job, const std::string& text);
  // Returns all experiments, the latest report first, without their trials.
  std::string list() const;
  // Returns the experiment with this name and its trials. Errors: not_found.
  Result<std::string> get(const std::string& name) const;
  std::size_t size() const { return rows_.size(); }

 private:
  struct Experiment {
    JobId job;
    std::string name;
    Time reported_at;
    std::string summary;  // JSON objects
    std::string trials;
  };

  // INTERRUPTED: the driver has ended or is silent, and has not reported the end.
  std::string state_of(const Experiment& row, const std::string& reported) const;

  HeadTables& tables_;
  std::list<Experiment> rows_;  // latest report first
};

}  // namespace mobula::internal::head
