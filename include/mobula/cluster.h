// `init` and the `Cluster` that it returns: a program joins or starts a cluster here.
// Thread: any for queries; one thread calls `init` and `shutdown`.
// Owner: `Cluster` owns the job, and the cluster if `init` started it.
// Not: several clusters at a time in one process.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/node.h>
#include <mobula/options.h>

namespace mobula {

namespace detail {

// Interface of the session that a `Cluster` owns: the job, and the cluster if `init` started it.
class MOBULA_API ClusterSession {
 public:
  virtual ~ClusterSession();
  // Address of the head as NAME:PORT.
  virtual std::string address() const = 0;
  virtual std::string job_id() const = 0;
  // Reports whether `init` started the cluster, which then ends with the session.
  virtual bool is_own() const = 0;
  // Ends the job and returns when all of its processes have exited.
  virtual void shutdown() = 0;
};

}  // namespace detail

// The job of this program. Its destructor or `shutdown` ends the job, and the cluster if `init`
// started it. Later calls throw `NotInitializedError` until the next `init`.
class [[nodiscard]] MOBULA_API Cluster {
 public:
  // For the library.
  explicit Cluster(std::unique_ptr<detail::ClusterSession> session);
  // Transfers the job.
  Cluster(Cluster&&) noexcept;
  // Ends the present job and transfers the other job.
  Cluster& operator=(Cluster&&) noexcept;
  // Ends the job; see `shutdown`.
  ~Cluster();

  // Ends the job. A second call has no effect.
  void shutdown();

  // Returns the head's address as NAME:PORT, or an empty string after `shutdown`.
  std::string address() const;
  // Returns the id of the job, or an empty string after `shutdown`.
  std::string job_id() const;
  // Reports whether `init` started the cluster.
  bool is_own() const;

 private:
  std::unique_ptr<detail::ClusterSession> session_;
};

// Joins a cluster or starts one, and begins a job. The address is the first of `--mobula-address`,
// `options.address`, `MOBULA_ADDRESS`, and the token in `MOBULA_TOKEN` or `MOBULA_TOKEN_FILE`.
// Without an address, `init` joins the running cluster of the same user and state directory, or
// starts a local cluster if no cluster runs. The address "local", or a resource field without an
// address, always starts a local cluster.
//
// Removes the `--mobula-*` flags from the arguments. In an executor it does not return, so it must
// be the first statement of `main`.
MOBULA_API Cluster init(int& argc, char** argv, const InitOptions& options = {});
// Joins or starts a cluster without arguments of the command line.
MOBULA_API Cluster init(const InitOptions& options = {});

// Reports whether this process runs tasks or actors. May be called before `init`.
MOBULA_API bool in_executor();

// Returns the nodes of the cluster.
MOBULA_API std::vector<Node> nodes();
// Returns the total resources of the cluster by name.
MOBULA_API std::map<std::string, double> cluster_resources();
// Returns the free resources of the cluster by name; never less than 0.
MOBULA_API std::map<std::string, double> available_resources();

}  // namespace mobula
