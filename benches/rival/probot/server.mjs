// Probot as benches/hooks.rs runs it: it proves each delivery, reads it, hands it to an app that does nothing, and answers.
//
//     node server.mjs SECRET PATH
//
// Prints the address that it listens on.

import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createNodeMiddleware, Probot } from "probot";

const [secret, webhooksPath] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
});
const probot = new Probot({ appId: 1, privateKey, secret, logLevel: "error" });
const app = (bot) => bot.onAny(async () => {});
const middleware = await createNodeMiddleware(app, { probot, webhooksPath });
const server = createServer((request, response) => middleware(request, response, () => response.writeHead(404).end()));
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
