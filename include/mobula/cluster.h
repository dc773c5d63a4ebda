// init and the cluster it joins: where a program begins and its job ends. One cluster at a time in
// a process; any thread may ask, one thread starts and ends it.
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

// What a Cluster owns: the job, and the cluster where init started it.
class MOBULA_API ClusterSession {
 public:
  virtual ~ClusterSession();
  // NAME:PORT of the head.
  virtual std::string address() const = 0;
  virtual std::string job_id() const = 0;
  // Whether init started the cluster, which then ends with it.
  virtual bool is_own() const = 0;
  // Ends the job; returns when everything of it is gone.
  virtual void shutdown() = 0;
};

}  // namespace detail

// The job of this program. Its end, or shutdown(), ends the job, and the cluster where init started
// one; later calls throw NotInitializedError until the next init.
class [[nodiscard]] MOBULA_API Cluster {
 public:
  explicit Cluster(std::unique_ptr<detail::ClusterSession> session);
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;
  ~Cluster();

  // May be called again.
  void shutdown();

  // Empty after shutdown().
  std::string address() const;
  std::string job_id() const;
  bool is_own() const;

 private:
  std::unique_ptr<detail::ClusterSession> session_;
};

// Joins the first address of --mobula-address, options.address, MOBULA_ADDRESS, and the token in MOBULA_TOKEN;
// else the cluster that this user runs from the state directory; else starts a cluster on this machine. The
// address "local", or an option that describes a node (num_cpus, memory, ...) without an address, always starts
// one. Takes the --mobula-* flags out of the arguments. In an executor it does not return: let it be the
// first statement of main.
MOBULA_API Cluster init(int& argc, char** argv, const InitOptions& options = {});
MOBULA_API Cluster init(const InitOptions& options = {});

// Whether this process runs tasks or actors. May be called before init.
MOBULA_API bool in_executor();

MOBULA_API std::vector<Node> nodes();
// By name of the resource; `available_resources` never shows less than 0.
MOBULA_API std::map<std::string, double> cluster_resources();
MOBULA_API std::map<std::string, double> available_resources();

}  // namespace mobula
