#include <mobula/cluster.h>

#include <utility>

#include <mobula/detail/runtime.h>

#include "client/api/completion/callback_thread.h"

namespace mobula {

detail::ClusterSession::~ClusterSession() = default;

Cluster::Cluster(std::unique_ptr<detail::ClusterSession> session) : session_(std::move(session)) {}

Cluster::Cluster(Cluster&&) noexcept = default;

Cluster& Cluster::operator=(Cluster&& other) noexcept {
  if (this == &other) return *this;
  if (session_) shutdown();
  session_ = std::move(other.session_);
  return *this;
}

Cluster::~Cluster() {
  if (session_) shutdown();
}

void Cluster::shutdown() {
  // the job of the parent continues
  if (detail::in_forked_child()) return void(session_.release());
  detail::refuse_callback("shutdown");
  const auto ending = std::move(session_);
  if (ending) ending->shutdown();
}

std::string Cluster::address() const { return session_ ? session_->address() : std::string(); }

std::string Cluster::job_id() const { return session_ ? session_->job_id() : std::string(); }

bool Cluster::is_own() const { return session_ && session_->is_own(); }

std::vector<Node> nodes() { return detail::runtime()->nodes().take(); }

std::map<std::string, double> cluster_resources() {
  return detail::runtime()->cluster_resources().take();
}

std::map<std::string, double> available_resources() {
  return detail::runtime()->available_resources().take();
}

}  // namespace mobula
