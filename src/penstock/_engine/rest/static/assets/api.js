/** Flink's REST API, as far as these pages need it. */

const TOKEN = "penstock.token";

/** The server answered, but not with success. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** The server did not answer. */
export class Silent extends Error {}

export class Api {
  #token = sessionStorage.getItem(TOKEN);
  #asking = null;
  #entering = null;
  #askForToken;

  /** Takes a function that asks for the token, and is told whether one was wrong. */
  constructor(askForToken) {
    this.#askForToken = askForToken;
  }

  get(path) {
    return this.#ask("GET", path);
  }

  /** What is there, or null where the server knows of nothing. */
  async find(path) {
    try {
      return await this.get(path);
    } catch (error) {
      if (error instanceof Refused && error.status === 404) return null;
      throw error;
    }
  }

  post(path, body) {
    return this.#ask("POST", path, body);
  }

  cancel(job) {
    return this.#ask("PATCH", `/jobs/${job}?mode=cancel`);
  }

  async #ask(method, path, body) {
    await this.#enter();
    for (;;) {
      const sent = this.#token;
      const response = await this.#send(method, path, body, sent);
      if (response.ok) return response.json();
      if (response.status !== 401) throw new Refused(response.status, await reason(response));
      if (sent === this.#token) await this.#renewToken(sent !== null);
    }
  }

  async #send(method, path, body, token) {
    const headers = { Accept: "application/json" };
    if (token !== null) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    try {
      return await fetch(`v1${path}`, { method, headers, body: body && JSON.stringify(body), cache: "no-store" });
    } catch (error) {
      throw new Silent(error.message);
    }
  }

  /** Takes the code of a link out of the address, and gets the token for it; one that is good no more changes nothing. */
  async #enter() {
    const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
    if (code) {
      history.replaceState(null, "", "#/");
      this.#entering = this.#redeem(code);
    }
    await this.#entering;
  }

  async #redeem(code) {
    const response = await this.#send("POST", "/penstock/token", { code }, null);
    if (response.ok) this.#keep((await response.json()).token);
  }

  #keep(token) {
    this.#token = token;
    sessionStorage.setItem(TOKEN, token);
  }

  /** Asks once, however many requests were refused at the same time. */
  async #renewToken(wasWrong) {
    this.#asking ??= this.#askForToken(wasWrong);
    this.#keep(await this.#asking);
    this.#asking = null;
  }
}

async function reason(response) {
  try {
    return (await response.json()).errors.join("\n");
  } catch {
    return `The server answered ${response.status} ${response.statusText}`;
  }
}
