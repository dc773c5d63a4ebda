#include "transport/net/port_holder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "base/fd.h"
#include "transport/net/address.h"

namespace mobula::internal {
namespace {

void expect_this_process_at(const std::string& address) {
  const SocketAddress any = *Address::parse(address)->numeric();
  Fd listener(::socket(any.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), any.get(), any.size), 0) << address;
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const auto port = local_address_of(listener.get()).value().port();
  EXPECT_TRUE(listener_at(port).starts_with(fmt::format("process {} (", ::getpid())))
      << listener_at(port);
  listener.reset();
  EXPECT_EQ(listener_at(port), "");
}

TEST(PortHolder, FindsListeningProcess) {
  expect_this_process_at("127.0.0.1:0");
  expect_this_process_at("0.0.0.0:0");
}

TEST(PortHolder, FindsListeningProcessForIpv6) {
  const Fd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = *Address::parse("[::1]:0")->numeric();
  if (!probe || ::bind(probe.get(), any.get(), any.size) != 0)
    GTEST_SKIP() << "there is no IPv6 here";
  expect_this_process_at("[::1]:0");
}

}  // namespace
}  // namespace mobula::internal
