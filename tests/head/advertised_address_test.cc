#include "head/advertised_address.h"

#include <gtest/gtest.h>

namespace mobula::internal::head {
namespace {

using Names = std::vector<std::string>;

HostFacts facts(std::string route_v4, std::string route_v6, Names addresses, Names named) {
  return {std::move(route_v4), std::move(route_v6), std::move(addresses),
          [named] { return named; }};
}

TEST(Advertised, PrefersDefaultRouteToName) {
  EXPECT_EQ(
      advertised_host(facts("10.0.0.3", "", {"10.0.0.3", "172.17.0.1"}, {"172.17.0.1"}), false),
      "10.0.0.3");
  EXPECT_EQ(advertised_host(facts("10.0.0.3", "fd00::3", {"10.0.0.3", "fd00::3"}, {}), true),
            "fd00::3");
  EXPECT_EQ(advertised_host(facts("10.0.0.3", "", {"10.0.0.3"}, {}), true), "10.0.0.3")
      << "which :: serves, too";
}

TEST(Advertised, NoRoute_UsesReachableAddressOfHostName) {
  EXPECT_EQ(
      advertised_host(facts("", "", {"10.78.0.3", "10.79.0.3"}, {"127.0.1.1", "10.79.0.3"}), false),
      "10.79.0.3");
  EXPECT_EQ(advertised_host(facts("", "", {"10.78.0.3"}, {"127.0.1.1"}), false), "10.78.0.3");
  EXPECT_EQ(advertised_host(facts("", "", {"10.78.0.3"}, {"192.0.2.77"}), false), "10.78.0.3")
      << "an address of another machine";
  EXPECT_EQ(advertised_host(facts("", "", {"10.78.0.3"}, {}), false), "10.78.0.3")
      << "it does not resolve";
  EXPECT_EQ(advertised_host(facts("", "", {"fd00::3", "10.78.0.3"}, {"fd00::3"}), false),
            "10.78.0.3");
}

TEST(Advertised, NoNetwork_UsesLoopback) {
  EXPECT_EQ(advertised_host(facts("", "", {}, {"a1h3", "127.0.1.1"}), false), "127.0.0.1");
  EXPECT_EQ(advertised_host(facts("", "", {}, {}), true), "::1");
}

TEST(Advertised, ReturnsNumericNonWildcardAddress) {
  const std::string host = advertised_host(HostFacts::of_machine(), false);
  EXPECT_FALSE(is_any_host(host));
  EXPECT_EQ(host.find_first_not_of("0123456789."), std::string::npos) << host;
}

TEST(HeadAddresses, FindsNextHeadAtKnownAddress) {
  const HeadAddresses at_one{"10.78.0.1:8000", "10.78.0.1:8000"};
  EXPECT_TRUE(reached_at(at_one, "10.78.0.1:8000"));
  EXPECT_TRUE(reached_at(at_one, "0.0.0.0:8000"));
  EXPECT_FALSE(reached_at(at_one, "127.0.0.1:8000"));
  EXPECT_FALSE(reached_at(at_one, "10.78.0.1:8001"));
  const HeadAddresses at_all{"0.0.0.0:8000", "10.78.0.1:8000"};
  EXPECT_TRUE(reached_at(at_all, "0.0.0.0:8000"));
  EXPECT_TRUE(reached_at(at_all, "10.78.0.1:8000"));
  EXPECT_FALSE(reached_at(at_all, "127.0.0.1:8000"));
  const HeadAddresses named{"127.0.0.1:8000", "head.example.invalid:8000"};
  EXPECT_TRUE(reached_at(named, "127.0.0.1:8000"))
      << "the local address is valid with any advertised name";
}

TEST(HeadAddresses, ParsesPrintedAddressesOnly) {
  const auto addresses = addresses_of(to_text({"[::]:80", "[fd00::3]:80"}));
  ASSERT_TRUE(addresses);
  EXPECT_EQ(addresses->bound, "[::]:80");
  EXPECT_EQ(addresses->advertised, "[fd00::3]:80");
  for (const char* text : {"", "10.0.0.1:1", "x y", " ", "10.0.0.1:1 \n"})
    EXPECT_FALSE(addresses_of(text)) << text;
}

}  // namespace
}  // namespace mobula::internal::head
