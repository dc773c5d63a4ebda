// Tests the embedded files of the web page: their responses, sizes, and forbidden constructs.
#include "head/http/page_assets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mobula::internal::head {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string field_of(const PageResponse& response, const std::string& name) {
  for (const auto& [each, value] : response.fields) {
    if (each == name) return value;
  }
  return {};
}

PageResponse respond(std::string_view path, std::string_view encoding = {},
                     std::string_view tag = {}) {
  return page_response({path, encoding, tag}).value();
}

TEST(PageAssets, ServesThreeFilesOnly) {
  EXPECT_EQ(page_files().size(), 3u);
  EXPECT_THAT(std::string(respond("/").body), HasSubstr("<title>Mobula</title>"));
  EXPECT_STREQ(respond("/page.js").type, "text/javascript; charset=utf-8");
  EXPECT_STREQ(respond("/page.css").type, "text/css; charset=utf-8");
  for (const char* path : {"", "/page.html", "/page.js/", "/page", "//", "/../page.js", "/PAGE.JS"})
    EXPECT_FALSE(page_response({path, "", ""})) << path;
}

TEST(PageAssets, SendsStrictPolicy) {
  const std::string policy = field_of(respond("/"), "Content-Security-Policy");
  for (const char* rule :
       {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
        "img-src data:", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"})
    EXPECT_THAT(policy, HasSubstr(rule));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(field_of(respond("/"), "Referrer-Policy"), "no-referrer");
  EXPECT_EQ(field_of(respond("/page.js"), "X-Content-Type-Options"), "nosniff");
}

TEST(PageAssets, CompressesOnlyWhenAccepted) {
  for (const char* accepted : {"gzip", "br, gzip", "deflate, GZIP;q=0.5"}) {
    const auto response = respond("/page.js", accepted);
    EXPECT_EQ(field_of(response, "Content-Encoding"), "gzip") << accepted;
    EXPECT_EQ(response.body.substr(0, 2), "\x1f\x8b");
  }
  for (const char* refused : {"", "br", "gzip;q=0", "gzip; q=0.000", "notgzip"}) {
    const auto response = respond("/page.js", refused);
    EXPECT_EQ(field_of(response, "Content-Encoding"), "") << refused;
    EXPECT_EQ(response.body.substr(0, 2), "//");
  }
  EXPECT_EQ(field_of(respond("/"), "Vary"), "Accept-Encoding");
}

TEST(PageAssets, KnownTag_IsNotModified) {
  const std::string tag = field_of(respond("/page.js", "gzip"), "ETag");
  EXPECT_NE(tag, field_of(respond("/page.js"), "ETag")) << "a tag names one representation";
  EXPECT_NE(tag, field_of(respond("/page.css", "gzip"), "ETag"));
  for (const std::string& known : {tag, "\"other\", W/" + tag, std::string("*")}) {
    const auto response = respond("/page.js", "gzip", known);
    EXPECT_EQ(response.status, 304) << known;
    EXPECT_EQ(response.body, "");
    EXPECT_EQ(field_of(response, "ETag"), tag);
    EXPECT_EQ(field_of(response, "Content-Encoding"), "");
  }
  EXPECT_EQ(respond("/page.js", "", tag).status, 200);
  EXPECT_EQ(respond("/page.js", "gzip", "\"other\"").status, 200);
  EXPECT_EQ(field_of(respond("/page.js"), "Cache-Control"), "no-cache");
}

TEST(PageAssets, StaysWithinSizeLimits) {
  std::size_t plain = 0, gzip = 0;
  for (const auto& file : page_files()) {
    plain += file.plain.size();
    gzip += file.gzip.size();
  }
  EXPECT_LE(plain, 150u * 1024);
  EXPECT_LE(gzip, 60u * 1024);
  EXPECT_LT(gzip, plain);
}

// Names of tasks and lines of logs come from users. Only text nodes may carry them.
TEST(PageAssets, NeverParsesTextAsMarkup) {
  for (const auto& file : page_files()) {
    for (const char* sink :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "setHTML", "DOMParser",
          "createContextualFragment", "srcdoc", "eval(", "new Function", "javascript:", " style=\"",
          "document.cookie", "http://", "https://"})
      EXPECT_THAT(std::string(file.plain), Not(HasSubstr(sink))) << file.name;
  }
}

}  // namespace
}  // namespace mobula::internal::head
