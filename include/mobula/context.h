// `current()`: the identity, seed, and devices of the running task.
// Thread: any; describes the task of the calling thread.
// Not: tasks of other processes. In a driver only the fields of the job are set.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/detail/runtime.h>

namespace mobula {

// A snapshot of one task. It stays valid and unchanged after the task has finished.
class MOBULA_API Context {
 private:
  std::shared_ptr<const detail::ContextRecord> record_;

 public:
  // For the library.
  explicit Context(std::shared_ptr<const detail::ContextRecord> record);
  // Copies the snapshot.
  Context(const Context& other) : Context(other.record_) {}
  Context& operator=(const Context&) = delete;

  // Id of the job.
  const std::string& job_id;
  // Id of the task; empty in a driver.
  const std::string& task_id;
  // Id of the actor; empty outside actors.
  const std::string& actor_id;
  // Id of the node.
  const std::string& node_id;
  // Number of earlier attempts of this task.
  const int attempt;
  // Whether the actor was restarted.
  const bool was_restarted;
  // Namespace of the job.
  const std::string& name_space;

  // Returns the CUDA stream of the calling thread's task, or null without devices.
  void* stream() const;
  // Returns a seed for random generators. It differs between tasks and is equal in every attempt of
  // one task.
  std::uint64_t seed() const { return record_->seed; }
  // Reports whether the calling thread's task was cancelled.
  bool cancelled() const;

  // Returns the GPUs of the task: entries of the node's visible list, otherwise indices.
  const std::vector<std::string>& gpu_ids() const { return record_->gpu_ids; }
  // Returns the ids of the assigned devices by resource name.
  const std::map<std::string, std::vector<std::string>>& resource_ids() const {
    return record_->resource_ids;
  }
  // Returns the amounts of the assigned resources by name.
  const std::map<std::string, double>& assigned_resources() const {
    return record_->assigned_resources;
  }
  // Returns the accelerator variables of this process, for example `CUDA_VISIBLE_DEVICES`.
  const std::map<std::string, std::string>& accelerator_env() const {
    return record_->accelerator_env;
  }
};

// Returns the context of the calling thread's task.
MOBULA_API Context current();

// Ends the calling actor after the running call. It does not return. `InvalidRequestError` outside
// the methods of an actor.
[[noreturn]] MOBULA_API void exit_actor();

namespace detail {

// Thrown by `exit_actor` to unwind a method. Not an `Error`, so that handlers of errors do not
// catch it.
struct MOBULA_API ExitActor {};

}  // namespace detail

}  // namespace mobula
