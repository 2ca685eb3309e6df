/** Requests to the server. They wait for a server that went away, and for a key. */

const KEY = "vocabtool-key"; // in the storage of this tab
const FIRST_WAIT = 250; // milliseconds
const LONGEST_WAIT = 2000;
const AWAY = new Set([502, 503]); // not 504: what took too long once would again

/** What the server refused, in its own words. */
export class Problem extends Error {
  /** @param {{detail?: string, title?: string, position?: number}} told @param {number} status */
  constructor(told, status) {
    super(told.detail ?? told.title ?? `the server answered ${status}`);
    this.status = status;
    this.position = told.position;
  }
}

export const hasKey = () => sessionStorage.getItem(KEY) !== null;

export const keepKey = (key) => sessionStorage.setItem(KEY, key);

export class Api {
  /**
   * @param {(told: string) => void} onAway called with why the server does not answer, then with ""
   * @param {() => Promise<void>} onKeyNeeded settles when there is another key
   */
  constructor(onAway, onKeyNeeded) {
    this.onAway = onAway;
    this.onKeyNeeded = onKeyNeeded;
  }

  get(path, signal) {
    return this.json(path, { signal });
  }

  post(path, body, signal) {
    const headers = { "Content-Type": "application/json" };
    return this.json(path, { method: "POST", body: JSON.stringify(body), headers, signal });
  }

  async json(path, request) {
    return (await this.answer(path, request)).json();
  }

  /**
   * Return the answer, as soon as there is one. Throws Problem, and AbortError if it was given up.
   *
   * @param {string} path
   * @param {RequestInit} request
   */
  async answer(path, request) {
    let isAway = false;
    for (let wait = FIRST_WAIT; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
      const answer = await this.attempt(path, request);
      if (answer?.status === 401) {
        await this.onKeyNeeded();
      } else if (answer?.status === 429) {
        await pause(1000 * (Number(answer.headers.get("Retry-After")) || 1), request.signal);
      } else if (answer && !AWAY.has(answer.status)) {
        if (isAway) this.onAway("");
        if (answer.ok) return answer;
        throw new Problem(await answer.json().catch(() => ({})), answer.status);
      } else {
        const told = answer && (await answer.json().catch(() => ({}))).detail;
        this.onAway(told ?? "the server does not answer");
        isAway = true;
        await pause(wait, request.signal);
      }
    }
  }

  /** @param {string} path @param {RequestInit} request @returns {Promise<Response | null>} */
  async attempt(path, request) {
    const key = sessionStorage.getItem(KEY);
    const headers = { ...request.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    try {
      return await fetch(path, { ...request, headers });
    } catch (error) {
      if (request.signal?.aborted) throw error;
      return null; // no connection
    }
  }
}

/** @param {number} milliseconds @param {AbortSignal | null} [signal] @returns {Promise<void>} */
function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)));
  });
}

/** Runs one task at a time: a new one cancels the one before. */
export class Latest {
  #controller = new AbortController();

  /**
   * Return what the task returns, or null if it was overtaken.
   *
   * @template Result
   * @param {(signal: AbortSignal) => Promise<Result>} task
   * @returns {Promise<Result | null>}
   */
  async run(task) {
    this.#controller.abort();
    const { signal } = (this.#controller = new AbortController());
    try {
      const result = await task(signal);
      return signal.aborted ? null : result;
    } catch (error) {
      if (signal.aborted) return null;
      throw error;
    }
  }
}
