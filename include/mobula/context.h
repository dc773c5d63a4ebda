// current(): what the running task knows about itself. In a driver only the job's fields are set.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/detail/runtime.h>

namespace mobula {

// A look at one task; stays valid, and says the same, after the task has ended.
class MOBULA_API Context {
 private:
  std::shared_ptr<const detail::ContextRecord> record_;

 public:
  explicit Context(std::shared_ptr<const detail::ContextRecord> record);
  Context(const Context& other) : Context(other.record_) {}
  Context& operator=(const Context&) = delete;

  const std::string& job_id;
  const std::string& task_id;
  const std::string& actor_id;
  const std::string& node_id;
  const int attempt;
  const bool was_restarted;
  const std::string& name_space;

  // The CUDA stream of the calling thread's task; null without devices.
  void* stream() const;
  // For random generators: differs between tasks, equal in every attempt of one.
  std::uint64_t seed() const { return record_->seed; }
  // Whether the calling thread's task was asked to stop.
  bool cancelled() const;

  const std::vector<std::string>& gpu_ids() const { return record_->gpu_ids; }
  const std::map<std::string, std::vector<std::string>>& resource_ids() const {
    return record_->resource_ids;
  }
  const std::map<std::string, double>& assigned_resources() const {
    return record_->assigned_resources;
  }
  // The variables that name the devices, as they are set in this process.
  const std::map<std::string, std::string>& accelerator_env() const {
    return record_->accelerator_env;
  }
};

MOBULA_API Context current();

// Ends the calling actor once the running call is over; does not return. For methods of actors:
// else InvalidRequestError.
[[noreturn]] MOBULA_API void exit_actor();

namespace detail {

// Unwinds a method that called exit_actor(). Not an Error, so that no one takes it for one.
struct MOBULA_API ExitActor {};

}  // namespace detail

}  // namespace mobula
