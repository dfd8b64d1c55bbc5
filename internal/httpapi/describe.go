package httpapi

import (
	"maps"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

const (
	ttlMeans = "The device is offline once it was not heard for so long; 10m, or a number of seconds. Left out: three times the interval, " +
		"or what was said before. It yields to the configured policy."
	intervalMeans = "How often the device means to be heard."
	expectMeans   = "When the device is expected: a crontab expression such as 0 3 * * *, perhaps with a time zone behind it. Its silence counts from the next " +
		"of these instants. It yields to the configured policy, and excludes ttl."
	zoneMeans  = "The time zone of expect, such as Europe/Berlin. Left out: UTC."
	graceMeans = "How long after that the device is offline if it was not heard; 30m, or a number of seconds. Left out: 1 h. Only beside expect."
)

// addBeat adds an operation to the description.
type addBeat func(id, method, path, summary, description string, parameters []*huma.Param, body *huma.RequestBody, answer *huma.Response)

// describeBeats adds the heartbeats to the description; huma does not serve them.
func describeBeats(spec *huma.OpenAPI) {
	id := &huma.Param{
		Name: "id", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(liveness.MaxID)},
		Description: "The device's id, percent-encoded: / is %2F.",
	}
	query := func(name, meaning string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Schema: &huma.Schema{Type: huma.TypeString}, Description: meaning}
	}
	says := strict(announcementMeans())
	announces := []*huma.Param{query("ttl", ttlMeans), query("interval", intervalMeans), query("expect", expectMeans), query("zone", zoneMeans), query("grace", graceMeans)}
	welcome := object(map[string]string{
		"timeout_ms": "The heard silence after which the device is offline.", "interval_ms": "How often it is expected to be heard.",
		"policy": "The rule that the timeout is from: device, group NAME, announced or default.",
	})
	welcome.Properties["expect"] = textOf("When it is expected; left out if silence always counts.")
	add := func(id, method, path, summary, description string, parameters []*huma.Param, body *huma.RequestBody, answer *huma.Response) {
		responses := beatProblems()
		code := "200"
		if answer.Content == nil {
			code = "204"
		}
		responses[code] = answer
		spec.AddOperation(&huma.Operation{
			OperationID: id, Method: method, Path: path, Tags: []string{"heartbeats"}, Summary: summary, Description: description,
			Parameters: parameters, RequestBody: body, Responses: responses,
		})
	}
	beat := jsonResponse("What holds for the device", welcome)
	add("beat", http.MethodPost, "/v1/beat/{id}", "A heartbeat", "It makes the device if it is new.",
		append([]*huma.Param{id}, announces...), jsonBody(says, false), beat)
	add("beat-get", http.MethodGet, "/v1/beat/{id}", "A heartbeat, for curl and cron",
		"The token may be in the query, for those who cannot send a header. That is a compromise: addresses end up in the logs of proxies. "+
			"Use a token that may do nothing else. While no token is needed, a GET cannot change what holds for a device that was heard before: the answer is 422.",
		append([]*huma.Param{id, query("token", "A token with the role beat.")}, announces...), nil, beat)
	describeRuns(add, id, announces)
	add("beat-bye", http.MethodPost, "/v1/beat/{id}/bye", "A device says goodbye", "It is offline at once.",
		[]*huma.Param{id}, nil, &huma.Response{Description: "Taken"})
	length := query("for", "How long: 1h, or a number of seconds.")
	length.Required = true
	add("beat-sleep", http.MethodPost, "/v1/beat/{id}/sleep", "A device will be silent for a while",
		"A sign of life. The silence does not count against it; the policy's sleep limit bounds it.", []*huma.Param{id, length}, nil,
		jsonResponse("How long it may sleep", object(map[string]string{"granted_ms": "What was granted."})))
	add("beats", http.MethodPost, "/v1/beats", "Heartbeats of up to 10,000 devices",
		"A heartbeat is an id, or an object with one. Those that are wrong are named in the answer, and the others are taken. "+
			"503 says that some must be sent again; to send all again does no harm.",
		nil, jsonBody(batchSchema(), true),
		jsonResponse("What became of them", huma.SchemaFromType(spec.Components.Schemas, reflect.TypeFor[BatchAnswer]())))
	responses := spec.Paths["/v1/beats"].Post.Responses
	responses["503"] = responseOf[busyBatchError](spec, responses["503"].Description)
}

// describeRuns adds what a job says of its runs.
func describeRuns(add addBeat, id *huma.Param, announces []*huma.Param) {
	text := "What the job printed, at most 102,400 bytes; the last 10,240 are kept."
	took := "How long the run took, as the job knows it: 12m3s, or a number of seconds. Left out: the time since its start."
	ending := func(more map[string]string) *huma.RequestBody {
		means := map[string]string{"message": text, "duration": took}
		maps.Copy(means, more)
		body := jsonBody(strict(means), false)
		body.Content["text/plain"] = &huma.MediaType{Schema: textOf(text)}
		return body
	}
	parameters := func(more ...*huma.Param) []*huma.Param { return slices.Concat([]*huma.Param{id}, more, announces) }
	taken := &huma.Response{Description: "Taken, and stored"}
	add("beat-start", http.MethodPost, "/v1/beat/{id}/start", "A job begins a run",
		"A sign of life, and an event device.run.started. Silence counts from now on, whenever the job is expected otherwise. The next heartbeat is the success "+
			"of the run; another start replaces it.", parameters(), nil, taken)
	status := &huma.Param{Name: "status", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0), Maximum: new(255.0)}, Description: "The exit status."}
	add("beat-exit", http.MethodPost, "/v1/beat/{id}/exit/{status}", "A job ends a run, with its exit status",
		"0 is a heartbeat, with an event device.run.finished if a run was under way or the body says something; all else is a failure, as by /fail. For curl: .../exit/$?",
		parameters(status), ending(nil), taken)
	add("beat-fail", http.MethodPost, "/v1/beat/{id}/fail", "A device tells of a failure of its own",
		"A sign of life, and an event device.failed with the message. It ends a run that was under way.", parameters(), ending(map[string]string{"exit_status": "1 to 255."}), taken)
}

func announcementMeans() map[string]string {
	return map[string]string{"ttl": ttlMeans, "interval": intervalMeans, "expect": expectMeans, "zone": zoneMeans, "grace": graceMeans}
}

func batchSchema() *huma.Schema {
	means := announcementMeans()
	means["id"] = "The device's id."
	item := strict(means)
	item.Required = []string{"id"}
	return &huma.Schema{Type: huma.TypeArray, MaxItems: new(maxBatch), Items: &huma.Schema{
		OneOf: []*huma.Schema{{Type: huma.TypeString, MaxLength: new(liveness.MaxID)}, item},
	}}
}

func textOf(meaning string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: meaning}
}

// strict describes an object with these texts and no other fields.
func strict(meanings map[string]string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: make(map[string]*huma.Schema)}
	for name, meaning := range meanings {
		s.Properties[name] = textOf(meaning)
		if name == "exit_status" {
			s.Properties[name].Type = huma.TypeInteger
		}
	}
	return s
}

// object describes an object with numbers, and with texts where the name does not end in _ms.
func object(meanings map[string]string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, Properties: make(map[string]*huma.Schema), Required: slices.Sorted(maps.Keys(meanings))}
	for name, meaning := range meanings {
		p := &huma.Schema{Type: huma.TypeString, Description: meaning}
		if len(name) > 3 && name[len(name)-3:] == "_ms" {
			p.Type = huma.TypeNumber
		}
		s.Properties[name] = p
	}
	return s
}

func jsonBody(s *huma.Schema, required bool) *huma.RequestBody {
	return &huma.RequestBody{Required: required, Content: map[string]*huma.MediaType{"application/json": {Schema: s}}}
}

func jsonResponse(description string, s *huma.Schema) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{"application/json": {Schema: s}}}
}

// beatProblems describes the problems that refuse a heartbeat.
func beatProblems() map[string]*huma.Response {
	responses := make(map[string]*huma.Response)
	for status, meaning := range map[string]string{
		"404": "The device is not known", "408": "The body took longer than 5 s", "413": "The body is too long",
		"422": "What was sent makes no sense", "503": "It cannot be stored now, or is not in time: send it again, which does no harm", "507": "There are too many devices",
	} {
		responses[status] = problemResponse(meaning)
	}
	return responses
}

// operationsOf returns the operations of a path by method.
func operationsOf(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodDelete: item.Delete,
	}
	maps.DeleteFunc(all, func(_ string, op *huma.Operation) bool { return op == nil })
	return all
}
