// A certificate for tests, and a TLS client.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

namespace mobula::internal::head {

struct FreeOpenssl {
  void operator()(EVP_PKEY* each) const { ::EVP_PKEY_free(each); }
  void operator()(X509* each) const { ::X509_free(each); }
  void operator()(SSL_CTX* each) const { ::SSL_CTX_free(each); }
  void operator()(SSL* each) const { ::SSL_free(each); }
  void operator()(X509_EXTENSION* each) const { ::X509_EXTENSION_free(each); }
};
template <class T>
using Openssl = std::unique_ptr<T, FreeOpenssl>;

// Writes a self-signed certificate for 127.0.0.1 with this subject, and its key. It ends after
// `days`, which may be negative.
inline void write_certificate(const std::string& certificate_file, const std::string& key_file,
                              const std::string& subject, int days = 30) {
  const Openssl<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const Openssl<X509> certificate(::X509_new());
  X509* const made = certificate.get();
  ::X509_set_version(made, 2);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(made), 1);
  ::X509_gmtime_adj(::X509_getm_notBefore(made), -60L * 86'400);
  ::X509_gmtime_adj(::X509_getm_notAfter(made), days * 86'400L);
  ::X509_set_pubkey(made, key.get());
  X509_NAME* const name = ::X509_get_subject_name(made);
  ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1, 0);
  ::X509_set_issuer_name(made, name);
  const Openssl<X509_EXTENSION> names(
      ::X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost"));
  ::X509_add_ext(made, names.get(), -1);
  ::X509_sign(made, key.get(), ::EVP_sha256());
  std::FILE* file = std::fopen(certificate_file.c_str(), "w");
  ::PEM_write_X509(file, made);
  std::fclose(file);
  file = std::fopen(key_file.c_str(), "w");
  ::PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
}

}  // namespace mobula::internal::head
