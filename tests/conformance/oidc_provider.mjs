// A provider of OpenID Connect for one client, whose people sign in by their name alone.
import { Provider } from "oidc-provider";

const { port, client, callback } = JSON.parse(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [{ ...client, redirect_uris: [callback], grant_types: ["authorization_code"], response_types: ["code"] }],
  cookies: { keys: ["a key of this test"] },
  pkce: { required: () => true },
  claims: { openid: ["sub"], profile: ["name"], email: ["email", "email_verified"] },
  async findAccount(_context, id) {
    return {
      accountId: id,
      async claims() {
        return { sub: id, name: `${id} of Acme`, email: `${id}@example.org`, email_verified: id !== "mallory" };
      },
    };
  },
});
// What a provider of the test can't have: addresses with TLS.
provider.listen(port, "127.0.0.1", () => console.log("ready"));
